#include "stages/corpus/chat/jinja/jinja_scopes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "stages/corpus/chat/jinja/jinja_lexer.h"
#include "stages/corpus/chat/jinja/jinja_template.h"

namespace troupe::stages {
namespace {

/// Functions that every template of transformers may call.
constexpr std::array<std::string_view, 8> kFunctions{
    "raise_exception", "strftime_now", "namespace", "range", "dict", "lipsum", "cycler", "joiner"};

}  // namespace

JinjaScopes::JinjaScopes(const JinjaVariables& variables)
    : variables_(variables), current_(std::make_shared<JinjaScope>()) {}

std::shared_ptr<JinjaScope> JinjaScopes::enter(std::shared_ptr<JinjaScope> scope) {
  return std::exchange(current_, std::move(scope));
}

JinjaValue JinjaScopes::value_of(const std::string& name, int line) const {
  for (const JinjaScope* scope = current_.get(); scope; scope = scope->outer.get())
    if (const auto found = scope->names.find(name); found != scope->names.end())
      return found->second;
  if (const auto found = variables_.values.find(name); found != variables_.values.end())
    return found->second;
  if (const auto found = variables_.refused.find(name); found != variables_.refused.end())
    fail_in_line(line, fmt::format("{} {}", name, found->second));
  if (std::ranges::find(kFunctions, name) != kFunctions.end()) return JinjaValue::function(name);
  return {};
}

}  // namespace troupe::stages
