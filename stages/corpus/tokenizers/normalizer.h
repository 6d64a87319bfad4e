#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/text/split.h"
#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// What a tokenizer.json does to a text before it is split: it puts something before it (Prepend)
/// or replaces parts of it (Replace). Const calls may run in any thread.
class Normalizer {
 public:
  /// Reads the member "normalizer"; none: a text stays as it is.
  explicit Normalizer(const std::optional<JsonPart>& part);

  bool changes_nothing() const { return steps_.empty(); }
  bool prepends() const;
  /// Whether parts of a text that is cut at lone newlines (Cuts) are normalized as in the whole
  /// text.
  bool allows_cuts() const;
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
  void read(const JsonPart& part);

  std::vector<std::variant<Prepend, Replace>> steps_;
};

/// The text with every match of the pattern replaced.
std::string replace_all(std::string_view text, const Regex& pattern, std::string_view with);

}  // namespace troupe::stages
