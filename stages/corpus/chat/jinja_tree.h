#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::stages {

/// A value while a template runs. No value at all is what Jinja calls undefined. It is shared,
/// because an element of a list or object keeps the whole alive: so reading one copies nothing.
using JinjaValue = std::shared_ptr<const nlohmann::json>;

/// An expression of a template. What `name` and `parts` are depends on the kind; a part may be null
/// where Jinja lets it be left out.
struct JinjaExpression {
  enum class Kind {
    literal,    ///< value
    variable,   ///< name
    list,       ///< parts
    attribute,  ///< parts[0].name
    element,    ///< parts[0][parts[1]]
    slice,      ///< parts[0][parts[1]:parts[2]:parts[3]]
    call,       ///< parts[0](parts[1], ...)
    filter,     ///< parts[0] | name(parts[1], ...)
    test,       ///< parts[0] is name
    unary,      ///< name parts[0]: not, -
    binary,     ///< parts[0] name parts[1]
    choice,     ///< parts[1] if parts[0] else parts[2]
  };
  using Pointer = std::unique_ptr<JinjaExpression>;

  Kind kind = Kind::literal;
  int line = 1;
  std::string name = {};
  std::vector<Pointer> parts = {};
  JinjaValue value = nullptr;
  /// The arguments by name of a call or a filter.
  std::vector<std::pair<std::string, Pointer>> named = {};
  int depth = 1;  ///< of the deepest part, and one
};

struct JinjaStatement;
using JinjaBody = std::vector<JinjaStatement>;

/// A statement of a template.
struct JinjaStatement {
  enum class Kind {
    data,        ///< writes `name`
    output,      ///< writes the expression
    choice,      ///< body if the expression is true, else `otherwise`
    loop,        ///< body for each `name` of the expression, `otherwise` if there is none
    assignment,  ///< sets `name`, or its attribute, to the expression
    generation,  ///< body, which is what an assistant generated
    refused,     ///< is not supported where a template comes to it: `name` says what it is
  };
  Kind kind = Kind::data;
  int line = 1;
  std::string name = {};
  std::string attribute = {};
  JinjaExpression::Pointer expression = nullptr;
  JinjaExpression::Pointer condition = nullptr;  ///< of a loop: which elements it takes; or null
  JinjaBody body = {};
  JinjaBody otherwise = {};
};

/// Parses a template: text, {{ expressions }}, and the statements if, for, set and generation.
/// Throws Error{data} with the line for what is no template, or for a statement or a form of
/// expression that is not supported.
JinjaBody parse_jinja(std::string_view source);

}  // namespace troupe::stages
