#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/chat/jinja/values/jinja_fault.h"

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
    number,   ///< with a fraction or an exponent
    symbol,   ///< an operator or bracket
    end,      ///< of the template
  };
  Kind kind = Kind::end;
  std::string text;
  int line = 1;
};

/// The tokens of a template, the last of them `end`. White space is trimmed around tags as their
/// signs and the two settings say, and comments are left out. Throws as fail_in_line does for what
/// is no token, or is one that is not supported.
std::vector<JinjaToken> jinja_tokens(std::string_view source);

/// The text of a string literal in a template, given what is between its quotes: Python's escapes
/// are replaced, except octal ones and \N{...}, which are not supported. Throws Error{data} with
/// the line.
std::string unescaped(std::string_view literal, int line);

}  // namespace troupe::stages
