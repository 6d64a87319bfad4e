#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/text/normal_forms.h"
#include "stages/corpus/tokenizers/text/split.h"
#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// What a tokenizer.json does to a text before it is split: it puts something before it (Prepend),
/// replaces parts of it (Replace), takes white space from its ends (Strip) or changes characters
/// (NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, BertNormalizer). Const calls may run in any
/// thread.
class Normalizer {
 public:
  /// Reads the member "normalizer"; none: a text stays as it is.
  explicit Normalizer(const std::optional<JsonPart>& part);

  bool changes_nothing() const { return steps_.empty(); }
  bool prepends() const;
  /// Whether parts of a text that is cut at lone newlines (Cuts) are normalized as in the whole
  /// text.
  bool allows_cuts() const;
  /// Whether, if allows_cuts(), it may also be cut before this character.
  bool may_cut_before(char32_t character) const;
  /// The normalized text. Nothing is put before a text that continues another one.
  std::string apply(std::string_view text, Place place) const;

 private:
  struct Prepend {
    std::string text;
  };
  struct Replace {
    Pattern pattern;
    std::string with;
  };
  struct Strip {
    bool left, right;
  };
  struct Lowercase {};
  struct StripAccents {};
  struct Bert {
    bool cleans_text, divides_chinese, strips_accents, lowercase;
  };
  using Step = std::variant<NormalForm, Prepend, Replace, Strip, Lowercase, StripAccents, Bert>;

  void read(const JsonPart& part);
  static Step read_step(const std::string& type, const JsonPart& part);
  static Replace read_replace(const JsonPart& part);

  static std::string apply(NormalForm form, std::string_view text, Place place);
  static std::string apply(const Prepend& step, std::string_view text, Place place);
  static std::string apply(const Replace& step, std::string_view text, Place place);
  static std::string apply(const Strip& step, std::string_view text, Place place);
  static std::string apply(const Lowercase& step, std::string_view text, Place place);
  static std::string apply(const StripAccents& step, std::string_view text, Place place);
  static std::string apply(const Bert& step, std::string_view text, Place place);

  std::vector<Step> steps_;
};

/// The text with every match of the pattern replaced.
std::string replace_all(std::string_view text, const Regex& pattern, std::string_view with);

}  // namespace troupe::stages
