#pragma once

#include <map>
#include <memory>
#include <string>

#include "stages/corpus/chat/jinja/values/jinja_value.h"

namespace troupe::stages {

struct JinjaVariables;

/// Names that were set in a part of a template, and the scope around it.
struct JinjaScope {
  std::shared_ptr<JinjaScope> outer;
  std::map<std::string, JinjaValue> names;
};

/// What names mean while a template runs: variables, those of the template as a whole outermost,
/// and in each pass of a loop, and in a macro, those of its own.
class JinjaScopes {
 public:
  /// `variables` outlive the scopes.
  explicit JinjaScopes(const JinjaVariables& variables);

  /// Begins a scope in the one that is current.
  void begin() { current_ = std::make_shared<JinjaScope>(current_); }
  void end() { current_ = current_->outer; }
  /// Makes another scope the current one, and returns the one that was.
  std::shared_ptr<JinjaScope> enter(std::shared_ptr<JinjaScope> scope);
  const std::shared_ptr<JinjaScope>& current() const { return current_; }

  void set(const std::string& name, JinjaValue value) { current_->names[name] = std::move(value); }
  /// The value of a variable; undefined if it has none. Throws Error{data} for one that may not be
  /// read.
  JinjaValue value_of(const std::string& name, int line) const;

  const JinjaVariables& variables() const { return variables_; }

 private:
  const JinjaVariables& variables_;
  std::shared_ptr<JinjaScope> current_;
};

}  // namespace troupe::stages
