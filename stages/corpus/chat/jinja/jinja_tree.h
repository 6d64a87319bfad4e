#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stages/corpus/chat/jinja/values/jinja_value.h"

namespace troupe::stages {

/// An expression of a template. What `name` and `parts` are depends on the kind; a part may be null
/// where Jinja lets it be left out.
struct JinjaExpression {
  enum class Kind {
    literal,    ///< value
    variable,   ///< name
    list,       ///< parts
    tuple,      ///< parts
    object,     ///< parts: each name, and behind it the member
    attribute,  ///< parts[0].name
    element,    ///< parts[0][parts[1]]
    slice,      ///< parts[0][parts[1]:parts[2]:parts[3]]
    call,       ///< parts[0](parts[1], ...)
    filter,     ///< parts[0] | name(parts[1], ...)
    test,       ///< parts[0] is name(parts[1], ...)
    unary,      ///< name parts[0]: not, -
    binary,     ///< parts[0] name parts[1]
    choice,     ///< parts[1] if parts[0] else parts[2]
  };
  using Pointer = std::unique_ptr<JinjaExpression>;

  Kind kind = Kind::literal;
  int line = 1;
  std::string name = {};
  std::vector<Pointer> parts = {};
  JinjaValue value = {};
  /// The arguments by name of a call, a filter or a test.
  std::vector<std::pair<std::string, Pointer>> named = {};
  int depth = 1;  ///< of the deepest part, and one
};

struct JinjaStatement;
using JinjaBody = std::vector<JinjaStatement>;

/// A parameter of a macro, or of the body of a {% call %}.
struct JinjaParameter {
  std::string name;
  JinjaExpression::Pointer otherwise = nullptr;  ///< its value where none is given; or null
};

/// A statement of a template.
struct JinjaStatement {
  enum class Kind {
    data,        ///< writes `name`
    output,      ///< writes the expression
    choice,      ///< body if the expression is true, else `otherwise`
    loop,        ///< body for each element of the expression, `otherwise` if there is none
    assignment,  ///< sets `name`, or its attribute, to the expression
    capture,     ///< sets them to what body writes
    macro,       ///< defines `name` as body
    call,        ///< writes the expression, a call of a macro that may call body as caller()
    generation,  ///< body, which is what an assistant generated
    leave,       ///< ends the loop: {% break %}
    next,        ///< ends the pass of the loop: {% continue %}
  };
  Kind kind = Kind::data;
  int line = 1;
  std::string name = {};
  std::string attribute = {};
  JinjaExpression::Pointer expression = nullptr;
  JinjaExpression::Pointer condition = nullptr;  ///< of a loop: which elements it takes; or null
  std::vector<std::string> targets = {};         ///< of a loop: one, or those that share an element
  std::vector<JinjaParameter> parameters = {};   ///< of a macro or a call
  JinjaBody body = {};
  JinjaBody otherwise = {};
};

/// Parses a template: text, {{ expressions }}, and the statements if, for, set, macro, call,
/// generation, break and continue. Throws Error{data} with the line for what is no template, or for
/// a statement or a form of expression that is not supported.
JinjaBody parse_jinja(std::string_view source);

}  // namespace troupe::stages
