#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Templates of the language Jinja, as far as the chat templates of models use it: what Jinja 3
// makes of them with trim_blocks and lstrip_blocks, as Hugging Face's transformers sets it up.

namespace troupe::stages {

/// A part of a template's source.
struct JinjaToken {
  enum class Kind {
    data,            ///< text outside tags, as it is written out
    block_begin,     ///< {%
    block_end,       ///< %}
    variable_begin,  ///< {{
    variable_end,    ///< }}
    name,
    string,   ///< a literal, with its escapes replaced
    integer,  ///< decimal digits, at most 18
    symbol,   ///< an operator or bracket
    end,      ///< of the template
  };
  Kind kind = Kind::end;
  std::string text;
  int line = 1;
};

/// Throws Error{data}: what is wrong in a line of a template.
[[noreturn]] void fail_in_line(int line, std::string_view why);

/// The tokens of a template, the last of them `end`. White space is trimmed around tags as their
/// signs and the two settings say, and comments are left out. Throws as fail_in_line does for what
/// is no token, or is one that is not supported.
std::vector<JinjaToken> jinja_tokens(std::string_view source);

/// Python's white space: Unicode's, and the separators U+001C to U+001F.
bool is_python_space(char32_t character);
// A text of well-formed UTF-8 without the white space at its begin or its end.
std::string_view without_space_before(std::string_view text);
std::string_view without_space_behind(std::string_view text);

}  // namespace troupe::stages
