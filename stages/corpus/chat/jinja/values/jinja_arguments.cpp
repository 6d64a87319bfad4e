#include "stages/corpus/chat/jinja/values/jinja_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "stages/corpus/chat/jinja/values/jinja_fault.h"

namespace troupe::stages {

std::optional<JinjaValue> JinjaArguments::take(std::string_view name) {
  if (by_place_.empty()) return take_by_name(name);
  JinjaValue value = std::move(by_place_.front());
  by_place_.erase(by_place_.begin());
  return value;
}

std::optional<JinjaValue> JinjaArguments::take_by_name(std::string_view name) {
  const auto found = std::ranges::find(by_name_, name, &std::pair<std::string, JinjaValue>::first);
  if (found == by_name_.end()) return std::nullopt;
  JinjaValue value = std::move(found->second);
  by_name_.erase(found);
  return value;
}

JinjaValue JinjaArguments::take(std::string_view name, JinjaValue otherwise) {
  auto value = take(name);
  return value ? *value : std::move(otherwise);
}

JinjaValue JinjaArguments::take_needed(std::string_view name) {
  auto value = take(name);
  if (!value) fail(fmt::format("without {}", name));
  return *value;
}

std::string JinjaArguments::take_text(std::string_view name) {
  const JinjaValue value = take_needed(name);
  if (!value.is_string()) fail(fmt::format("with {} as {}", kind_name(value), name));
  return value.text();
}

std::int64_t JinjaArguments::take_integer(std::string_view name, std::int64_t otherwise) {
  const JinjaValue value = take(name, otherwise);
  if (!value.is_integer()) fail(fmt::format("with {} as {}", kind_name(value), name));
  return value.integer();
}

void JinjaArguments::expect_none() const {
  if (!by_name_.empty()) fail(fmt::format("with an argument {}", by_name_.front().first));
  if (!by_place_.empty()) fail("with so many arguments");
}

void JinjaArguments::fail(std::string_view why) const {
  fail_in_line(line_, fmt::format("{}{}{} is not supported", of_, why.empty() ? "" : " ", why));
}

}  // namespace troupe::stages
