#pragma once

#include <string>
#include <string_view>

namespace troupe::stages {

/// Translates a pattern of Oniguruma, which Hugging Face's tokenizers use, to one of PCRE2 that
/// matches the same texts in the same way. Takes only what both engines do alike: characters, white
/// space and digits, some properties, sets of these, groups, alternatives, look-ahead,
/// quantifiers, the end of a line, and ASCII without case. Throws Error{data} with the place of
/// anything else.
std::string to_pcre2(std::string_view pattern);

}  // namespace troupe::stages
