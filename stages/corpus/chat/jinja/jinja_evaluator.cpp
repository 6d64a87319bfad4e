#include "stages/corpus/chat/jinja/jinja_evaluator.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <optional>
#include <utility>

#include "stages/corpus/chat/jinja/jinja_lexer.h"
#include "stages/corpus/chat/jinja/jinja_template.h"
#include "stages/corpus/chat/jinja/values/jinja_filters.h"
#include "stages/corpus/chat/jinja/values/jinja_methods.h"
#include "stages/corpus/chat/jinja/values/jinja_operators.h"
#include "stages/corpus/chat/jinja/values/jinja_text.h"

namespace troupe::stages {
namespace {

using Expression = JinjaExpression;
using Kind = Expression::Kind;

/// A time by the format of C's strftime, which is Python's.
std::string time_text(const std::tm& time, const std::string& format, int line) {
  if (format.empty()) return "";
  std::string text(format.size() * 16 + 256, '\0');
  const std::size_t bytes = std::strftime(text.data(), text.size(), format.c_str(), &time);
  if (bytes == 0) fail_in_line(line, "a time of so many characters");
  text.resize(bytes);
  return text;
}

JinjaValue range(JinjaArguments& given) {
  constexpr std::int64_t kMost = 100'000;  // as in Jinja's sandbox
  std::int64_t begin = 0, end = given.take_integer("stop", 0);
  if (const auto second = given.take("stop"); second && second->is_integer())
    begin = std::exchange(end, second->integer());
  const std::int64_t step = given.take_integer("step", 1);
  given.expect_none();
  JinjaList all;
  if (step == 0) given.fail("with the step 0");
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    all.emplace_back(i);
    if (std::ssize(all) > kMost) given.fail(fmt::format("over more than {} numbers", kMost));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return JinjaValue::list(std::move(all));
}

void set_member(JinjaObject& members, const std::string& name, JinjaValue value) {
  const auto found = std::ranges::find(members, name, &JinjaObject::value_type::first);
  if (found == members.end())
    members.emplace_back(name, std::move(value));
  else
    found->second = std::move(value);
}

/// Members that are given by name, or as an object before these.
JinjaObject members_of(JinjaArguments& given) {
  JinjaObject members;
  if (const auto object = given.take("")) {
    if (!object->is(JinjaValue::Kind::object)) given.fail("of what is no object");
    members = object->members();
  }
  for (auto& [name, value] : given.take_named()) set_member(members, name, std::move(value));
  given.expect_none();
  return members;
}

}  // namespace

JinjaValue JinjaEvaluator::value_of(const Expression& e) const {
  JinjaValue value = compute(e);
  if (value.depth() > kDeepestJinja)
    fail_in_line(e.line, fmt::format("values nest deeper than {}", kDeepestJinja));
  return value;
}

JinjaValue JinjaEvaluator::compute(const Expression& e) const {
  switch (e.kind) {
    case Kind::literal:
      return e.value;
    case Kind::variable:
      return scopes_.value_of(e.name, e.line);
    case Kind::list:
      return sequence(e, JinjaValue::Kind::list);
    case Kind::tuple:
      return sequence(e, JinjaValue::Kind::tuple);
    case Kind::object:
      return object(e);
    case Kind::attribute:
      return attribute_of(part(e, 0), e.name, e.line);
    case Kind::element:
      return element_of(part(e, 0), part(e, 1), e.line);
    case Kind::slice:
      return slice_of(part(e, 0), part(e, 1), part(e, 2), part(e, 3), e.line);
    case Kind::call:
      return call(e);
    case Kind::filter: {
      JinjaArguments given = arguments(e, "the filter " + e.name);
      return filtered(part(e, 0), e.name, given);
    }
    case Kind::test: {
      JinjaArguments given = arguments(e, "the test " + e.name);
      return passes_test(part(e, 0), e.name, given);
    }
    case Kind::unary:
      return e.name == "not" ? JinjaValue(!is_true(part(e, 0))) : negative(part(e, 0), e.line);
    case Kind::binary:
      return binary(e);
    case Kind::choice:
      break;
  }
  return is_true(part(e, 0)) ? part(e, 1) : part(e, 2);
}

JinjaValue JinjaEvaluator::sequence(const Expression& e, JinjaValue::Kind kind) const {
  JinjaList elements;
  for (const auto& element : e.parts) elements.push_back(value_of(*element));
  return JinjaValue::list(std::move(elements), kind);
}

JinjaValue JinjaEvaluator::object(const Expression& e) const {
  JinjaObject members;
  for (std::size_t i = 0; i + 1 < e.parts.size(); i += 2) {
    const JinjaValue name = part(e, i);
    if (!name.is_string())
      fail_in_line(e.line, fmt::format("{} as a member's name is not supported", kind_name(name)));
    set_member(members, name.text(), part(e, i + 1));
  }
  return JinjaValue::object(std::move(members));
}

JinjaArguments JinjaEvaluator::arguments(const Expression& e, std::string of) const {
  JinjaArguments given(std::move(of), e.line);
  for (std::size_t i = 1; i < e.parts.size(); ++i) given.add(part(e, i));
  for (const auto& [name, value] : e.named) given.add(name, value_of(*value));
  return given;
}

JinjaValue JinjaEvaluator::binary(const Expression& e) const {
  const JinjaValue left = part(e, 0);
  // As in Python, these give one of the two values, and the right one is not always looked at.
  if (e.name == "and") return is_true(left) ? part(e, 1) : left;
  if (e.name == "or") return is_true(left) ? left : part(e, 1);
  return operate(e.name, left, part(e, 1), e.line);
}

JinjaValue JinjaEvaluator::call(const Expression& e) const {
  const Expression& target = *e.parts[0];
  const bool is_method = target.kind == Kind::attribute;
  JinjaArguments given =
      arguments(e, (is_method ? "the method " : "the function ") +
                       (target.name.empty() ? std::string("of a value") : target.name));
  if (!is_method) return call_value(e, given);
  const JinjaValue whole = part(target, 0);
  if (whole.is(JinjaValue::Kind::space)) return call_value(e, given);
  return call_method(whole, target.name, given);
}

JinjaValue JinjaEvaluator::call(const Expression& e, const std::string& name,
                                JinjaValue argument) const {
  JinjaArguments given = arguments(e, "the function " + e.parts[0]->name);
  given.add(name, std::move(argument));
  return call_value(e, given);
}

JinjaValue JinjaEvaluator::call_value(const Expression& e, JinjaArguments& given) const {
  const JinjaValue target = part(e, 0);
  if (target.is(JinjaValue::Kind::function)) return call_function(target.function(), given);
  if (!target.is(JinjaValue::Kind::macro))
    fail_in_line(e.line, fmt::format("a call of {} is not supported", kind_name(target)));
  return call_macro_(target.macro(), given);
}

JinjaValue JinjaEvaluator::call_function(std::string_view name, JinjaArguments& given) const {
  if (name == "range") return range(given);
  if (name == "dict") return JinjaValue::object(members_of(given));
  if (name == "namespace") {
    JinjaSpace space;
    for (auto& [member, value] : members_of(given)) space[member] = std::move(value);
    return JinjaValue::space(std::move(space));
  }
  if (name != "raise_exception" && name != "strftime_now") given.fail("here");
  const std::string text = text_of(given.take_needed("an argument"), given.line());
  given.expect_none();
  if (name == "strftime_now") return time_text(scopes_.variables().now, text, given.line());
  fail_in_line(given.line(), fmt::format("the template refuses this: {}", text));
}

}  // namespace troupe::stages
