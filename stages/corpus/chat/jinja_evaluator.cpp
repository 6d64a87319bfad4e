#include "stages/corpus/chat/jinja_evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "stages/corpus/chat/jinja_lexer.h"
#include "stages/corpus/chat/jinja_values.h"

namespace troupe::stages {
namespace {

using Expression = JinjaExpression;
using Kind = Expression::Kind;
using nlohmann::json;

/// Functions that every template of transformers may call.
constexpr std::array<std::string_view, 8> kFunctions{
    "raise_exception", "strftime_now", "namespace", "range", "dict", "lipsum", "cycler", "joiner"};

class Evaluator {
 public:
  explicit Evaluator(const JinjaScopes& scopes) : scopes_(scopes) {}

  JinjaValue value_of(const Expression& e) const;

 private:
  /// The value of a part; undefined if it is left out.
  JinjaValue part(const Expression& e, std::size_t i) const {
    return i < e.parts.size() && e.parts[i] ? value_of(*e.parts[i]) : nullptr;
  }
  /// The values of the parts from the second on.
  JinjaArguments arguments(const Expression& e) const;
  JinjaValue binary(const Expression& e) const;
  JinjaValue attribute(const Expression& e) const;
  JinjaValue slice(const Expression& e) const;
  JinjaValue call(const Expression& e) const;
  JinjaValue test(const Expression& e) const;

  const JinjaScopes& scopes_;
};

bool is_variable(const Expression& e, std::string_view name) {
  return e.kind == Kind::variable && e.name == name;
}

JinjaValue Evaluator::value_of(const Expression& e) const {
  switch (e.kind) {
    case Kind::literal:
      return e.value;
    case Kind::variable:
      return scopes_.value_of(e.name, e.line);
    case Kind::attribute:
      return attribute(e);
    case Kind::element:
      return element_of(part(e, 0), part(e, 1), e.line);
    case Kind::slice:
      return slice(e);
    case Kind::call:
      return call(e);
    case Kind::test:
      return test(e);
    case Kind::binary:
      return binary(e);
    case Kind::choice:
      return is_true(part(e, 0)) ? part(e, 1) : part(e, 2);
    case Kind::unary:
      return e.name == "not" ? jinja_value(!is_true(part(e, 0))) : negative(part(e, 0), e.line);
    case Kind::filter:
      if (!e.named.empty())
        fail_in_line(e.line,
                     fmt::format("the filter {} with named arguments is not supported", e.name));
      return filtered(part(e, 0), e.name, arguments(e), e.line);
    case Kind::list:
      break;
  }
  json list = json::array();
  for (const auto& element : e.parts) {
    const JinjaValue value = value_of(*element);
    if (!value) fail_in_line(e.line, "an undefined element of a list is not supported");
    list.push_back(*value);
  }
  return jinja_value(std::move(list));
}

JinjaArguments Evaluator::arguments(const Expression& e) const {
  JinjaArguments values;
  for (std::size_t i = 1; i < e.parts.size(); ++i) values.push_back(part(e, i));
  return values;
}

JinjaValue Evaluator::binary(const Expression& e) const {
  const JinjaValue left = part(e, 0);
  // As in Python, these give one of the two values, and the right one is not always looked at.
  if (e.name == "and") return is_true(left) ? part(e, 1) : left;
  if (e.name == "or") return is_true(left) ? left : part(e, 1);
  return operate(e.name, left, part(e, 1), e.line);
}

JinjaValue loop_member(const JinjaLoop& loop, const std::string& name, int line) {
  if (name == "index0") return jinja_value(loop.index);
  if (name == "index") return jinja_value(loop.index + 1);
  if (name == "revindex0") return jinja_value(loop.length - loop.index - 1);
  if (name == "revindex") return jinja_value(loop.length - loop.index);
  if (name == "first") return jinja_value(loop.index == 0);
  if (name == "last") return jinja_value(loop.index + 1 == loop.length);
  if (name == "length") return jinja_value(loop.length);
  fail_in_line(line, fmt::format("loop.{} is not supported", name));
}

JinjaValue Evaluator::attribute(const Expression& e) const {
  const Expression& target = *e.parts[0];
  if (target.kind == Kind::variable) {
    if (const auto* members = scopes_.namespace_of(target.name)) {
      const auto member = members->find(e.name);
      return member == members->end() ? nullptr : member->second;
    }
    if (const JinjaLoop* loop = scopes_.loop(); loop && target.name == "loop")
      return loop_member(*loop, e.name, e.line);
  }
  return attribute_of(value_of(target), e.name, e.line);
}

JinjaValue Evaluator::slice(const Expression& e) const {
  if (part(e, 3)) fail_in_line(e.line, "a slice with a step is not supported");
  return slice_of(part(e, 0), part(e, 1), part(e, 2), e.line);
}

JinjaValue Evaluator::call(const Expression& e) const {
  const Expression& target = *e.parts[0];
  if (target.kind == Kind::attribute && e.named.empty())
    return call_method(value_of(*target.parts[0]), target.name, arguments(e), e.line);
  if (is_variable(target, "raise_exception") && e.parts.size() == 2)
    fail_in_line(e.line, fmt::format("the template refuses this: {}", text_of(part(e, 1), e.line)));
  fail_in_line(e.line, target.kind == Kind::variable
                           ? fmt::format("the function {} is not supported here", target.name)
                           : "this call is not supported");
}

/// A function that transformers defines is defined, too.
JinjaValue Evaluator::test(const Expression& e) const {
  const bool of_function =
      is_variable(*e.parts[0], "strftime_now") || is_variable(*e.parts[0], "raise_exception");
  if (of_function && e.name == "defined") return jinja_value(true);
  return jinja_value(is_of_kind(part(e, 0), e.name, e.line));
}

}  // namespace

const JinjaScopes::Meaning* JinjaScopes::find(const std::string& name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->names.find(name); found != scope->names.end())
      return &found->second;
  return nullptr;
}

JinjaValue JinjaScopes::value_of(const std::string& name, int line) const {
  if (const Meaning* meaning = find(name)) {
    if (const auto* value = std::get_if<JinjaValue>(meaning)) return *value;
    fail_in_line(line, fmt::format("the namespace {} as a value is not supported", name));
  }
  if (name == "loop" && loop()) fail_in_line(line, "loop as a value is not supported");
  if (const auto found = variables_.values.find(name); found != variables_.values.end())
    return found->second;
  if (const auto found = variables_.refused.find(name); found != variables_.refused.end())
    fail_in_line(line, fmt::format("{} {}", name, found->second));
  if (std::ranges::find(kFunctions, name) != kFunctions.end())
    fail_in_line(line, fmt::format("the function {} is not supported here", name));
  return nullptr;
}

JinjaScopes::Namespace* JinjaScopes::namespace_of(const std::string& name) const {
  const Meaning* meaning = find(name);
  const auto* members = meaning ? std::get_if<std::shared_ptr<Namespace>>(meaning) : nullptr;
  return members ? members->get() : nullptr;
}

const JinjaLoop* JinjaScopes::loop() const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (scope->names.contains("loop")) return nullptr;
    if (scope->loop) return &*scope->loop;
  }
  return nullptr;
}

JinjaValue evaluate(const JinjaExpression& expression, const JinjaScopes& scopes) {
  return Evaluator(scopes).value_of(expression);
}

bool makes_namespace(const JinjaExpression& expression) {
  return expression.kind == Kind::call && is_variable(*expression.parts[0], "namespace") &&
         expression.parts.size() == 1;
}

}  // namespace troupe::stages
