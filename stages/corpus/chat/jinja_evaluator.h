#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stages/corpus/chat/jinja_template.h"
#include "stages/corpus/chat/jinja_tree.h"

namespace troupe::stages {

/// Where a loop is.
struct JinjaLoop {
  std::size_t index = 0;
  std::size_t length = 0;
};

/// What names mean while a template runs: variables, those of the template as a whole outermost,
/// and in each pass of a loop those of its own.
class JinjaScopes {
 public:
  /// The members of an object made by namespace(), which assignments in inner scopes change.
  using Namespace = std::map<std::string, JinjaValue>;

  /// `variables` outlive the scopes.
  explicit JinjaScopes(const JinjaVariables& variables) : variables_(variables), scopes_(1) {}

  void begin(std::optional<JinjaLoop> loop = {}) { scopes_.push_back({.loop = loop, .names = {}}); }
  void end() { scopes_.pop_back(); }

  void set(const std::string& name, JinjaValue value) { scopes_.back().names[name] = value; }
  void set_namespace(const std::string& name, Namespace members) {
    scopes_.back().names[name] = std::make_shared<Namespace>(std::move(members));
  }

  /// The value of a variable; undefined if it has none. Throws Error{data} for one that may not be
  /// read, a namespace and the name of a function.
  JinjaValue value_of(const std::string& name, int line) const;
  /// The namespace of this name; null if it is none.
  Namespace* namespace_of(const std::string& name) const;
  /// The innermost loop; null outside of loops, or if a variable hides it.
  const JinjaLoop* loop() const;

 private:
  using Meaning = std::variant<JinjaValue, std::shared_ptr<Namespace>>;
  struct Scope {
    std::optional<JinjaLoop> loop;
    std::map<std::string, Meaning> names;
  };
  const Meaning* find(const std::string& name) const;

  const JinjaVariables& variables_;
  std::vector<Scope> scopes_;
};

/// The value of an expression. Throws Error{data} as JinjaTemplate::render says.
JinjaValue evaluate(const JinjaExpression& expression, const JinjaScopes& scopes);

/// Whether an expression is a call of namespace(), which only a `set` may have.
bool makes_namespace(const JinjaExpression& expression);

}  // namespace troupe::stages
