#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/text/regex.h"
#include "stages/corpus/tokenizers/text/split.h"

namespace troupe::stages {

/// A part of a text that is being divided into words.
struct Word {
  enum class Origin {
    start,          ///< it begins the document
    after_newline,  ///< it begins a part of a document that was cut (Cuts)
    within,
  };
  std::string_view text;
  Origin origin = Origin::within;
};

/// Words in their order, and the texts that were made on the way, to which words may point.
struct Words {
  std::vector<Word> words;
  std::deque<std::string> made;
};

/// How a tokenizer.json divides a text into words, which the model encodes one by one: the
/// pre-tokenizers Split, ByteLevel, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit and
/// BertPreTokenizer, or a Sequence of them. Const calls may run in any thread.
class PreTokenizer {
 public:
  /// Reads the member "pre_tokenizer"; none: a text is one word.
  explicit PreTokenizer(const std::optional<JsonPart>& part);

  /// Whether tokens are spelled in GPT-2's alphabet (byte_alphabet.h). The words are bytes.
  bool byte_level() const { return byte_level_; }
  /// Whether a word that begins a section gets a prefix, as a space.
  bool prefixes() const;
  /// Whether the word that begins a document differs from the ones that begin other sections.
  bool knows_start() const;
  /// What becomes of words if a document is cut at lone newlines (Cuts).
  enum class AtCut {
    ends_words,  ///< no word would reach over the cut
    cuts_word,   ///< one may; all others are the same
    differs,     ///< other words may differ
  };
  AtCut at_cut() const { return at_cut_; }
  /// Whether at_cut() holds at a newline with this text behind it.
  bool may_cut_before(std::string_view rest) const;

  /// Bytes of a text before the last place where a word begins whatever follows the text; 0 if none
  /// is known.
  std::size_t last_word_in(std::string_view text) const;

  /// Divides every word in turn by every step. No word becomes empty.
  void apply(Words& words) const;

 private:
  struct Divide {
    Regex pattern;
    Delimiters delimiters;
    Matches matches;
  };
  struct ReplaceSpaces {
    std::string with;
  };
  /// Puts a text before each word that does not begin with it.
  struct Prefix {
    std::string text;
    bool only_at_start = false;
  };
  /// Spells words in GPT-2's alphabet, for steps that come after ByteLevel, and makes bytes of them
  /// again.
  struct SpellBytes {};
  struct ReadBytes {};
  using Step = std::variant<Divide, ReplaceSpaces, Prefix, SpellBytes, ReadBytes>;

  void read(const JsonPart& part);
  void read_one(const std::string& type, const JsonPart& part);
  void read_split(const JsonPart& part);
  void read_byte_level(const JsonPart& part);
  void read_metaspace(const JsonPart& part);
  void divide_at_white_space();
  void divide(Pattern pattern, Delimiters delimiters, Matches matches = Matches::are_delimiters);
  void add_divide(Regex pattern, Delimiters delimiters, Matches matches);
  void prefix(Prefix step);

  static void apply(const Divide& step, Words& words);
  static void apply(const ReplaceSpaces& step, Words& words);
  static void apply(const Prefix& step, Words& words);
  static void apply(const SpellBytes& step, Words& words);
  static void apply(const ReadBytes& step, Words& words);

  std::vector<Step> steps_;
  bool byte_level_ = false;
  bool spells_bytes_ = false;
  bool begins_words_at_spaces_ = false;  ///< every space begins a word, by the first step
  AtCut at_cut_ = AtCut::cuts_word;
  std::vector<Regex> not_before_;  ///< at_cut_ does not hold before these characters
};

}  // namespace troupe::stages
