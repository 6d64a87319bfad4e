#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/text/unicode_tables.h"

namespace troupe::stages {

/// Makes characters that are newer than PCRE2's tables known to a pattern: in a text each of them
/// becomes an older one that counts to the same sets, and is as many bytes, so that matches lie
/// where they would. Const calls may run in any thread.
class NewerCharacters {
 public:
  /// For a pattern that tells characters apart by general categories, by the scripts of
  /// regex_syntax.h, and by the ranges given. Throws Error{data} naming a range that no stand-in
  /// can be found for.
  explicit NewerCharacters(std::span<const CharacterRange> named);

  /// The text to be matched in place of one of well-formed UTF-8; none if it is the same.
  std::optional<std::string> replaced(std::string_view text) const;

 private:
  std::vector<char32_t> stand_ins_;  ///< one for each of the newer ranges
};

}  // namespace troupe::stages
