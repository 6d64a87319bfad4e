#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "stages/corpus/chat/jinja_evaluator.h"
#include "stages/corpus/chat/jinja_lexer.h"

namespace troupe::stages {
namespace {

/// Functions that every template of transformers may call.
constexpr std::array<std::string_view, 8> kFunctions{
    "raise_exception", "strftime_now", "namespace", "range", "dict", "lipsum", "cycler", "joiner"};

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

const JinjaScopes::Namespace* JinjaScopes::namespace_of(const std::string& name) const {
  const Meaning* meaning = find(name);
  return meaning ? std::get_if<Namespace>(meaning) : nullptr;
}

const JinjaLoop* JinjaScopes::loop() const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (scope->names.contains("loop")) return nullptr;
    if (scope->loop) return &*scope->loop;
  }
  return nullptr;
}

void JinjaScopes::set_in_namespace(const std::string& name, const std::string& member,
                                   JinjaValue value, int line) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->names.find(name);
    if (found == scope->names.end()) continue;
    if (auto* members = std::get_if<Namespace>(&found->second)) {
      (*members)[member] = std::move(value);
      return;
    }
    break;
  }
  fail_in_line(line, fmt::format("{}.{} cannot be set: {} is no namespace", name, member, name));
}

}  // namespace troupe::stages
