#include "stages/corpus/chat/jinja/values/jinja_operators.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "stages/corpus/chat/jinja/values/jinja_fault.h"
#include "stages/corpus/chat/jinja/values/jinja_methods.h"
#include "stages/corpus/chat/jinja/values/jinja_text.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

using Kind = JinjaValue::Kind;

bool have_equal_members(const JinjaObject& left, const JinjaValue& right) {
  return left.size() == right.members().size() &&
         std::ranges::all_of(left, [&](const auto& member) {
           const JinjaValue* other = right.find(member.first);
           return other && are_equal(member.second, *other);
         });
}

bool contains(const JinjaValue& whole, const JinjaValue& part, int line) {
  if (!whole.is_defined()) return false;
  if (whole.is_sequence())
    return std::ranges::any_of(whole.elements(),
                               [&](const JinjaValue& one) { return are_equal(one, part); });
  if (whole.is(Kind::object) && part.is_string()) return whole.find(part.text()) != nullptr;
  if (whole.is(Kind::object) && part.kind() < Kind::list) return false;
  if (whole.is_string() && part.is_string())
    return whole.text().find(part.text()) != std::string::npos;
  fail_in_line(line, fmt::format("{} in {} is not supported", kind_name(part), kind_name(whole)));
}

[[noreturn]] void fail_calculation(std::string_view name, const JinjaValue& left,
                                   const JinjaValue& right, int line) {
  fail_in_line(line, fmt::format("{} {} {} is no number of 64 bits", text_of(left, line), name,
                                 text_of(right, line)));
}

/// Python's % and //, which round to the smaller integer.
std::int64_t floor_of(std::int64_t left, std::int64_t right) {
  return left / right - (left % right != 0 && (left < 0) != (right < 0));
}

JinjaValue calculate(std::string_view name, const JinjaValue& one, const JinjaValue& other,
                     int line) {
  const std::int64_t left = one.integer(), right = other.integer();
  std::int64_t result = 0;
  bool fails = false;
  if (name == "+") {
    fails = __builtin_add_overflow(left, right, &result);
  } else if (name == "-") {
    fails = __builtin_sub_overflow(left, right, &result);
  } else if (name == "*") {
    fails = __builtin_mul_overflow(left, right, &result);
  } else {
    fails = right == 0 || (left == INT64_MIN && right == -1);
    if (!fails && name == "/") return static_cast<double>(left) / static_cast<double>(right);
    if (!fails) result = floor_of(left, right);
    if (!fails && name == "%") result = left - result * right;
  }
  if (fails) fail_calculation(name, one, other, line);
  return result;
}

JinjaValue calculate_numbers(std::string_view name, const JinjaValue& one, const JinjaValue& other,
                             int line) {
  const double left = one.number(), right = other.number();
  if (name == "+") return left + right;
  if (name == "-") return left - right;
  if (name == "*") return left * right;
  if (right == 0) fail_calculation(name, one, other, line);
  if (name == "/") return left / right;
  const double rest = std::fmod(left, right);
  const bool is_other_side = rest != 0 && (rest < 0) != (right < 0);
  if (name == "//") return std::floor((left - rest) / right + 0.5) - (is_other_side ? 1 : 0);
  return is_other_side ? rest + right : rest;
}

JinjaValue joined(const JinjaValue& left, const JinjaValue& right) {
  JinjaList all = left.elements();
  all.insert(all.end(), right.elements().begin(), right.elements().end());
  return JinjaValue::list(std::move(all), left.kind());
}

JinjaValue repeated(const std::string& text, std::int64_t times, int line) {
  constexpr std::int64_t kMostBytes = 1 << 24;
  if (times > 0 && static_cast<std::int64_t>(text.size()) > kMostBytes / times)
    fail_in_line(line, fmt::format("a string of more than {} bytes", kMostBytes));
  std::string whole;
  for (std::int64_t i = 0; i < times; ++i) whole += text;
  return whole;
}

/// A bound of a slice of `size` elements, as Python clips it to [least, most].
std::int64_t bound_of(const JinjaValue& bound, std::int64_t otherwise, std::int64_t size,
                      std::int64_t least, std::int64_t most, int line) {
  if (!bound.is_defined() || bound.is(Kind::none)) return otherwise;
  if (!bound.is_integer()) fail_in_line(line, fmt::format("{} as a bound", kind_name(bound)));
  const std::int64_t at = bound.integer();
  return std::clamp(at < 0 ? std::max(at, -size - 1) + size : at, least, most);
}

/// The elements that a slice takes.
JinjaList sliced(const JinjaList& all, const JinjaValue& begin, const JinjaValue& end,
                 std::int64_t step, int line) {
  const std::int64_t size = std::ssize(all);
  const bool forward = step > 0;
  const std::int64_t least = forward ? 0 : -1, most = forward ? size : size - 1;
  const std::int64_t first = bound_of(begin, forward ? 0 : size - 1, size, least, most, line);
  const std::int64_t last = bound_of(end, forward ? size : -1, size, least, most, line);
  JinjaList part;
  for (std::int64_t i = first; forward ? i < last : i > last; i += step)
    part.push_back(all[static_cast<std::size_t>(i)]);
  return part;
}

}  // namespace

bool are_equal(const JinjaValue& left, const JinjaValue& right) {
  if (left.is_number() && right.is_number())
    return left.is_integer() && right.is_integer() ? left.integer() == right.integer()
                                                   : left.number() == right.number();
  if (left.kind() != right.kind()) return false;
  if (left.is_string()) return left.text() == right.text();
  if (left.is_sequence()) return std::ranges::equal(left.elements(), right.elements(), are_equal);
  if (left.is(Kind::object)) return have_equal_members(left.members(), right);
  return left.is_same_object(right);
}

bool is_less(const JinjaValue& left, const JinjaValue& right, int line) {
  if (left.is_string() && right.is_string()) return left.text() < right.text();
  if (left.is_integer() && right.is_integer()) return left.integer() < right.integer();
  if (left.is_number() && right.is_number()) return left.number() < right.number();
  fail_in_line(line, fmt::format("{} < {} is not supported", kind_name(left), kind_name(right)));
}

JinjaValue operate(std::string_view name, const JinjaValue& left, const JinjaValue& right,
                   int line) {
  if (name == "==") return are_equal(left, right);
  if (name == "!=") return !are_equal(left, right);
  if (name == "in") return contains(right, left, line);
  if (name == "not in") return !contains(right, left, line);
  if (name == "~") return text_of(left, line) + text_of(right, line);
  if (name == "<") return is_less(left, right, line);
  if (name == ">") return is_less(right, left, line);
  if (name == "<=") return is_less(left, right, line) || are_equal(left, right);
  if (name == ">=") return is_less(right, left, line) || are_equal(left, right);
  if (left.is_integer() && right.is_integer()) return calculate(name, left, right, line);
  if (left.is_number() && right.is_number()) return calculate_numbers(name, left, right, line);
  if (name == "+" && left.is_string() && right.is_string()) return left.text() + right.text();
  if (name == "+" && left.is_sequence() && left.kind() == right.kind()) return joined(left, right);
  if (name == "*" && left.is_string() && right.is_integer())
    return repeated(left.text(), right.integer(), line);
  fail_in_line(line,
               fmt::format("{} {} {} is not supported", kind_name(left), name, kind_name(right)));
}

JinjaValue negative(const JinjaValue& value, int line) {
  if (value.is(Kind::number)) return -value.number();
  return operate("-", 0, value, line);
}

JinjaList characters_of(std::string_view text) {
  JinjaList all;
  while (!text.empty()) {
    const std::size_t bytes = first_char_bytes(text);
    all.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return all;
}

JinjaList elements_of(const JinjaValue& whole, int line) {
  if (!whole.is_defined()) return {};
  if (whole.is_sequence()) return whole.elements();
  if (whole.is_string()) return characters_of(whole.text());
  if (!whole.is(Kind::object))
    fail_in_line(line, fmt::format("a loop over {} is not supported", kind_name(whole)));
  JinjaList names;
  for (const auto& [name, member] : whole.members()) names.emplace_back(name);
  return names;
}

JinjaValue element_of(const JinjaValue& whole, const JinjaValue& key, int line) {
  if (!whole.is_defined())
    fail_in_line(line, fmt::format("an undefined value has no element by {}", kind_name(key)));
  if (key.is_string() && !whole.is(Kind::object)) return attribute_of(whole, key.text(), line);
  if (key.is_string()) {
    const JinjaValue* member = whole.find(key.text());
    return member ? *member : JinjaValue();
  }
  if (!key.is_integer() || !(whole.is_sequence() || whole.is_string())) return {};
  const JinjaList all = elements_of(whole, line);
  const std::int64_t at = key.integer() + (key.integer() < 0 ? std::ssize(all) : 0);
  return at < 0 || at >= std::ssize(all) ? JinjaValue() : all[static_cast<std::size_t>(at)];
}

JinjaValue attribute_of(const JinjaValue& whole, const std::string& name, int line) {
  if (!whole.is_defined())
    fail_in_line(line, fmt::format("an undefined value has no member {}", name));
  if (name.starts_with('_') || is_python_method(whole, name))
    fail_in_line(line, fmt::format("the member {} of {} is not supported", name, kind_name(whole)));
  if (whole.is(Kind::space)) {
    const auto member = whole.space().find(name);
    return member == whole.space().end() ? JinjaValue() : member->second;
  }
  if (!whole.is(Kind::object) && !whole.is(Kind::loop)) return {};
  const JinjaValue* member = whole.find(name);
  if (!member && whole.is(Kind::loop))
    fail_in_line(line, fmt::format("loop.{} is not supported", name));
  return member ? *member : JinjaValue();
}

JinjaValue slice_of(const JinjaValue& whole, const JinjaValue& begin, const JinjaValue& end,
                    const JinjaValue& given_step, int line) {
  if (!whole.is_sequence() && !whole.is_string())
    fail_in_line(line, fmt::format("a part of {} is not supported", kind_name(whole)));
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  std::int64_t step = 1;
  if (given_step.is_integer())
    step = std::clamp(given_step.integer(), -kMost, kMost);
  else if (given_step.is_defined() && !given_step.is(Kind::none))
    fail_in_line(line, fmt::format("{} as a step", kind_name(given_step)));
  if (step == 0) fail_in_line(line, "a slice with the step 0");
  if (whole.is_sequence())
    return JinjaValue::list(sliced(whole.elements(), begin, end, step, line), whole.kind());
  std::string text;
  for (const JinjaValue& one : sliced(characters_of(whole.text()), begin, end, step, line))
    text += one.text();
  return text;
}

}  // namespace troupe::stages
