#pragma once

#include <optional>
#include <string_view>

#include "stages/corpus/tokenizers/text/regex.h"
#include "stages/corpus/tokenizers/text/regex_syntax.h"

namespace troupe::stages {

/// What is known of a pattern's matches at a newline that follows a character that is no white
/// space, before one that is none either: which is called a lone newline.
struct LineEnds {
  enum class Kind {
    unknown,
    passed,  ///< no match that begins before or at the newline depends on what follows it
    ended,   ///< moreover, the newline is always in a match
  };
  Kind kind = Kind::unknown;
  bool takes_newlines = false;  ///< a match may have a newline
  /// Characters that the above does not hold for, if the newline is before them; null: none.
  std::optional<Regex> but_before = {};
};

/// Finds that out from the parts of a pattern.
LineEnds line_ends_of(const Pcre2Pattern& pattern, const Regex& regex);

}  // namespace troupe::stages
