#include "stages/corpus/chat/jinja/values/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "stages/corpus/chat/jinja/values/jinja_fault.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

using Kind = JinjaValue::Kind;
using nlohmann::ordered_json;

JinjaValue value_of(const ordered_json& json, int depth) {
  if (depth > kDeepestJinja)
    throw Error(ErrorKind::data, fmt::format("JSON nests deeper than {}", kDeepestJinja));
  if (json.is_null()) return nullptr;
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_number()) {
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > INT64_MAX)
      throw Error(ErrorKind::data, fmt::format("the integer {} has no 64 bits", json.dump()));
    return json.get<std::int64_t>();
  }
  if (json.is_array()) {
    JinjaList elements;
    for (const ordered_json& element : json) elements.push_back(value_of(element, depth + 1));
    return JinjaValue::list(std::move(elements));
  }
  JinjaObject members;
  for (const auto& [name, member] : json.items())
    members.emplace_back(name, value_of(member, depth + 1));
  return JinjaValue::object(std::move(members));
}

}  // namespace

void fail_in_line(int line, std::string_view why) {
  throw Error(ErrorKind::data, fmt::format("line {}: {}", line, why));
}

JinjaValue::JinjaValue(std::string value)
    : kind_(Kind::string), held_(std::make_shared<const std::string>(std::move(value))) {}

JinjaValue JinjaValue::list(JinjaList elements, Kind kind) {
  int deepest = 0;
  for (const JinjaValue& element : elements) deepest = std::max(deepest, element.depth());
  JinjaValue value;
  value.kind_ = kind;
  value.held_ = std::make_shared<const Sequence>(std::move(elements), deepest + 1);
  return value;
}

JinjaValue JinjaValue::object(JinjaObject members, Kind kind) {
  int deepest = 0;
  for (const auto& [name, member] : members) deepest = std::max(deepest, member.depth());
  JinjaValue value;
  value.kind_ = kind;
  value.held_ = std::make_shared<const Mapping>(std::move(members), deepest + 1);
  return value;
}

JinjaValue JinjaValue::space(JinjaSpace members) {
  JinjaValue value;
  value.kind_ = Kind::space;
  value.held_ = std::make_shared<JinjaSpace>(std::move(members));
  return value;
}

JinjaValue JinjaValue::macro(JinjaMacro macro) {
  JinjaValue value;
  value.kind_ = Kind::macro;
  value.held_ = std::make_shared<const JinjaMacro>(std::move(macro));
  return value;
}

JinjaValue JinjaValue::function(std::string_view name) {
  JinjaValue value(name);
  value.kind_ = Kind::function;
  return value;
}

JinjaValue JinjaValue::of(const ordered_json& json) {
  return value_of(json, 0);
}

std::int64_t JinjaValue::integer() const {
  return kind_ == Kind::boolean ? std::int64_t{boolean()} : std::get<std::int64_t>(held_);
}

double JinjaValue::number() const {
  return kind_ == Kind::number ? std::get<double>(held_) : static_cast<double>(integer());
}

const JinjaValue* JinjaValue::find(std::string_view name) const {
  const auto& all = members();
  const auto found = std::ranges::find(all, name, &JinjaObject::value_type::first);
  return found == all.end() ? nullptr : &found->second;
}

int JinjaValue::depth() const {
  if (is_sequence()) return std::get<Elements>(held_)->depth;
  if (kind_ == Kind::object || kind_ == Kind::loop) return std::get<Members>(held_)->depth;
  return 0;
}

bool is_true(const JinjaValue& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
    case Kind::number:
      return value.number() != 0;
    case Kind::string:
      return !value.text().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.elements().empty();
    case Kind::object:
      return !value.members().empty();
    default:
      return true;
  }
}

std::string_view kind_name(const JinjaValue& value) {
  constexpr std::array<std::string_view, 13> kNames{
      "an undefined value", "none",    "a boolean", "a number",  "a number",
      "a string",           "a list",  "a list",    "an object", "a loop",
      "a namespace",        "a macro", "a function"};
  static_assert(static_cast<std::size_t>(Kind::function) + 1 == kNames.size());
  return kNames[static_cast<std::size_t>(value.kind())];
}

}  // namespace troupe::stages
