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
    after_newline,  ///< it begins a part of a document that was cut at a lone newline (Cuts)
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
/// pre-tokenizers Split, ByteLevel, Metaspace and Digits, or a Sequence of them. Const calls may
/// run in any thread.
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
  using Step = std::variant<Divide, ReplaceSpaces, Prefix>;

  void read(const JsonPart& part);
  void read_split(const JsonPart& part);
  void read_byte_level(const JsonPart& part);
  void read_metaspace(const JsonPart& part);
  void divide(Divide step, AtCut at_cut);
  void prefix(Prefix step);

  static void apply(const Divide& step, Words& words);
  static void apply(const ReplaceSpaces& step, Words& words);
  static void apply(const Prefix& step, Words& words);

  std::vector<Step> steps_;
  bool byte_level_ = false;
  AtCut at_cut_ = AtCut::cuts_word;
};

}  // namespace troupe::stages
