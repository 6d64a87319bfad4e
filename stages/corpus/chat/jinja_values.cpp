#include "stages/corpus/chat/jinja_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "stages/corpus/chat/jinja_lexer.h"

namespace troupe::stages {
namespace {

using nlohmann::json;

/// Names that are methods of Python's dict, and so no member of an object behind a dot.
constexpr std::array<std::string_view, 11> kDictMethods{
    "clear", "copy",       "fromkeys", "get",    "items", "keys",
    "pop",   "setdefault", "popitem",  "update", "values"};

std::string_view kind_of(const JinjaValue& value) {
  // By json::value_t, whose first are null, object, array, string and boolean.
  constexpr std::array<std::string_view, 5> kKinds{"none", "an object", "a list", "a string",
                                                   "a boolean"};
  if (!value) return "an undefined value";
  return value->is_number() ? "a number" : kKinds.at(static_cast<std::size_t>(value->type()));
}

bool is_string(const JinjaValue& value) {
  return value && value->is_string();
}
/// An integer of 64 bits, to which booleans, which are numbers in Python, do not belong.
bool is_integer(const JinjaValue& value) {
  return value && value->is_number_integer() &&
         !(value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX);
}

const std::string& string_in(const JinjaValue& value) {
  return value->get_ref<const std::string&>();
}

bool equal(const JinjaValue& left, const JinjaValue& right, int line) {
  if (!left || !right) return !left && !right;
  if (left->is_boolean() != right->is_boolean() && (left->is_number() || right->is_number()))
    fail_in_line(line, "comparing a boolean with a number is not supported");
  return *left == *right;
}

bool contains(const JinjaValue& whole, const JinjaValue& part, int line) {
  if (!whole) return false;
  if (whole->is_array())
    return std::ranges::any_of(
        *whole, [&](const json& element) { return equal(jinja_value(element), part, line); });
  if (whole->is_object() && is_string(part)) return whole->contains(string_in(part));
  if (whole->is_string() && is_string(part))
    return string_in(whole).find(string_in(part)) != std::string::npos;
  fail_in_line(line, fmt::format("{} in {} is not supported", kind_of(part), kind_of(whole)));
}

/// Python's % and //, which round to the smaller integer.
std::int64_t floor_of(std::int64_t left, std::int64_t right) {
  return left / right - (left % right != 0 && (left < 0) != (right < 0));
}

JinjaValue calculate(char name, std::int64_t left, std::int64_t right, int line) {
  std::int64_t result = 0;
  bool fails = false;
  switch (name) {
    case '+':
      fails = __builtin_add_overflow(left, right, &result);
      break;
    case '-':
      fails = __builtin_sub_overflow(left, right, &result);
      break;
    case '*':
      fails = __builtin_mul_overflow(left, right, &result);
      break;
    default:
      fails = right == 0 || (left == INT64_MIN && right == -1);
      if (!fails) result = floor_of(left, right);
      if (!fails && name == '%') result = left - result * right;
  }
  if (fails) fail_in_line(line, fmt::format("{} {} {} is no number of 64 bits", left, name, right));
  return jinja_value(result);
}

/// A bound of a slice of `size` elements, as Python clips it.
std::int64_t bound_of(const JinjaValue& bound, std::int64_t otherwise, std::int64_t size,
                      int line) {
  if (!bound || bound->is_null()) return otherwise;
  if (!is_integer(bound)) fail_in_line(line, fmt::format("{} as a bound", kind_of(bound)));
  const auto at = bound->get<std::int64_t>();
  return at < 0 ? std::max<std::int64_t>(at + size, 0) : std::min(at, size);
}

}  // namespace

JinjaValue jinja_value(json value) {
  return std::make_shared<const json>(std::move(value));
}

bool is_true(const JinjaValue& value) {
  if (!value || value->is_null()) return false;
  if (value->is_boolean()) return value->get<bool>();
  if (value->is_number()) return *value != 0;
  return value->is_string() ? !string_in(value).empty() : !value->empty();
}

std::string text_of(const JinjaValue& value, int line) {
  if (!value) return "";
  if (value->is_string()) return string_in(value);
  if (value->is_null()) return "None";
  if (value->is_boolean()) return value->get<bool>() ? "True" : "False";
  if (is_integer(value)) return std::to_string(value->get<std::int64_t>());
  fail_in_line(line, fmt::format("writing {} is not supported", kind_of(value)));
}

JinjaValue operate(std::string_view name, const JinjaValue& left, const JinjaValue& right,
                   int line) {
  if (name == "==") return jinja_value(equal(left, right, line));
  if (name == "!=") return jinja_value(!equal(left, right, line));
  if (name == "in") return jinja_value(contains(right, left, line));
  if (name == "not in") return jinja_value(!contains(right, left, line));
  if (name == "~") return jinja_value(text_of(left, line) + text_of(right, line));
  const bool strings = is_string(left) && is_string(right);
  const bool integers = is_integer(left) && is_integer(right);
  if (strings || integers) {
    if (name == "<") return jinja_value(*left < *right);
    if (name == "<=") return jinja_value(*left <= *right);
    if (name == ">") return jinja_value(*left > *right);
    if (name == ">=") return jinja_value(*left >= *right);
  }
  if (strings && name == "+") return jinja_value(string_in(left) + string_in(right));
  if (integers && name != "/")
    return calculate(name[0], left->get<std::int64_t>(), right->get<std::int64_t>(), line);
  fail_in_line(line, fmt::format("{} {} {} is not supported", kind_of(left), name, kind_of(right)));
}

JinjaValue negative(const JinjaValue& value, int line) {
  return operate("-", jinja_value(0), value, line);
}

JinjaValue element_of(const JinjaValue& whole, const JinjaValue& key, int line) {
  if (whole && whole->is_object() && is_string(key)) {
    const auto member = whole->find(string_in(key));
    return member == whole->end() ? nullptr : JinjaValue(whole, &*member);
  }
  if (whole && whole->is_array() && is_integer(key)) {
    const auto size = static_cast<std::int64_t>(whole->size());
    std::int64_t at = key->get<std::int64_t>();
    if (at < 0) at += size;
    if (at < 0 || at >= size) return nullptr;
    return JinjaValue(whole, &(*whole)[static_cast<std::size_t>(at)]);
  }
  fail_in_line(line, fmt::format("{} has no element by {}", kind_of(whole), kind_of(key)));
}

JinjaValue attribute_of(const JinjaValue& whole, const std::string& name, int line) {
  if (!whole || !whole->is_object())
    fail_in_line(line, fmt::format("{} has no member {}", kind_of(whole), name));
  if (std::ranges::find(kDictMethods, name) != kDictMethods.end() || name.starts_with('_'))
    fail_in_line(line, fmt::format("the member {} of an object is not supported", name));
  return element_of(whole, jinja_value(name), line);
}

JinjaValue slice_of(const JinjaValue& whole, const JinjaValue& begin, const JinjaValue& end,
                    int line) {
  if (!whole || !whole->is_array())
    fail_in_line(line, fmt::format("a part of {} is not supported", kind_of(whole)));
  const auto size = static_cast<std::int64_t>(whole->size());
  const std::int64_t first = bound_of(begin, 0, size, line);
  const std::int64_t last = std::max(bound_of(end, size, size, line), first);
  return jinja_value(json(json::array_t(whole->begin() + first, whole->begin() + last)));
}

bool is_of_kind(const JinjaValue& value, const std::string& name, int line) {
  if (name == "defined") return value != nullptr;
  if (name == "undefined") return value == nullptr;
  if (name == "none") return value && value->is_null();
  if (name == "string") return is_string(value);
  if (name == "mapping") return value && value->is_object();
  if (name == "iterable" || name == "sequence")
    return !value || value->is_structured() || value->is_string();
  if (name == "boolean") return value && value->is_boolean();
  if (name == "integer") return value && value->is_number_integer();
  if (name == "number") return value && (value->is_number() || value->is_boolean());
  if (name == "true" || name == "false")
    return value && value->is_boolean() && value->get<bool>() == (name == "true");
  fail_in_line(line, fmt::format("the test {} is not supported", name));
}

}  // namespace troupe::stages
