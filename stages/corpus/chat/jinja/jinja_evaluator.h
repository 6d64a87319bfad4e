#pragma once

#include <functional>
#include <string>

#include "stages/corpus/chat/jinja/jinja_scopes.h"
#include "stages/corpus/chat/jinja/jinja_tree.h"
#include "stages/corpus/chat/jinja/values/jinja_arguments.h"

namespace troupe::stages {

/// The values of expressions. Each call throws Error{data} as JinjaTemplate::render says.
class JinjaEvaluator {
 public:
  /// What a macro writes.
  using CallMacro = std::function<std::string(const JinjaMacro&, JinjaArguments&)>;
  /// The scopes outlive the object.
  JinjaEvaluator(const JinjaScopes& scopes, CallMacro call_macro)
      : scopes_(scopes), call_macro_(std::move(call_macro)) {}

  JinjaValue value_of(const JinjaExpression& e) const;
  /// The value of a call, which is given one more argument by name.
  JinjaValue call(const JinjaExpression& e, const std::string& name, JinjaValue argument) const;

 private:
  JinjaValue compute(const JinjaExpression& e) const;
  /// The value of a part; undefined if it is left out.
  JinjaValue part(const JinjaExpression& e, std::size_t i) const {
    return i < e.parts.size() && e.parts[i] ? value_of(*e.parts[i]) : JinjaValue();
  }
  /// The values of the parts from the second on, and of those with names.
  JinjaArguments arguments(const JinjaExpression& e, std::string of) const;
  JinjaValue sequence(const JinjaExpression& e, JinjaValue::Kind kind) const;
  JinjaValue object(const JinjaExpression& e) const;
  JinjaValue binary(const JinjaExpression& e) const;
  JinjaValue call(const JinjaExpression& e) const;
  JinjaValue call_value(const JinjaExpression& e, JinjaArguments& given) const;
  JinjaValue call_function(std::string_view name, JinjaArguments& given) const;

  const JinjaScopes& scopes_;
  CallMacro call_macro_;
};

}  // namespace troupe::stages
