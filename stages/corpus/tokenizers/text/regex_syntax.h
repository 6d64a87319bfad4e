#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/text/unicode_tables.h"

namespace troupe::stages {

/// A pattern in the syntax of PCRE2.
struct Pcre2Pattern {
  /// A part of an alternative with its quantifier.
  struct Item {
    enum class Kind {
      character,  ///< one character of a set
      letters,    ///< texts of ASCII letters, digits, ' and space, without case
      assertion,  ///< a look-ahead or an end of line, which takes no character
      group,      ///< anything else
    };
    Kind kind = Kind::group;
    std::string source;
    bool optional = false;  ///< it may be left out
    bool repeats = false;   ///< it may come several times in a row
  };

  std::string text;
  /// Characters that the pattern names by themselves, not by a property, from U+0800 on.
  std::vector<CharacterRange> named;
  std::vector<std::vector<Item>> alternatives;
};

/// Translates a pattern of Oniguruma, which Hugging Face's tokenizers use, to one of PCRE2 that
/// matches the same texts in the same way. Takes only what both engines do alike: characters, white
/// space and digits, some properties and scripts, sets of these, their unions and intersections,
/// groups, alternatives, look-ahead, quantifiers, the end of a line, and ASCII without case. Throws
/// Error{data} with the place of anything else.
Pcre2Pattern to_pcre2(std::string_view pattern);

}  // namespace troupe::stages
