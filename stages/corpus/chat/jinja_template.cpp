#include "stages/corpus/chat/jinja_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stages/corpus/chat/jinja_evaluator.h"
#include "stages/corpus/chat/jinja_lexer.h"
#include "stages/corpus/chat/jinja_values.h"

namespace troupe::stages {
namespace {

using Kind = JinjaStatement::Kind;

bool has_generation(const JinjaBody& body) {
  return std::ranges::any_of(body, [](const JinjaStatement& statement) {
    return statement.kind == Kind::generation || has_generation(statement.body) ||
           has_generation(statement.otherwise);
  });
}

class Renderer {
 public:
  explicit Renderer(const JinjaVariables& variables) : scopes_(variables) {}

  void run(const JinjaBody& body) {
    for (const JinjaStatement& statement : body) run(statement);
  }

  JinjaOutput output;

 private:
  void run(const JinjaStatement& s);
  void loop(const JinjaStatement& s);
  void assign(const JinjaStatement& s);
  JinjaValue value_of(const JinjaStatement& s) const { return evaluate(*s.expression, scopes_); }

  JinjaScopes scopes_;
};

void Renderer::run(const JinjaStatement& s) {
  switch (s.kind) {
    case Kind::data:
      output.text += s.name;
      return;
    case Kind::output:
      output.text += text_of(value_of(s), s.line);
      return;
    case Kind::choice:
      return run(is_true(value_of(s)) ? s.body : s.otherwise);
    case Kind::loop:
      return loop(s);
    case Kind::assignment:
      return assign(s);
    case Kind::refused:
      fail_in_line(s.line, s.name + " is not supported");
    case Kind::generation: {
      const std::size_t begin = output.text.size();
      scopes_.begin();
      run(s.body);
      scopes_.end();
      output.generated.push_back({.begin = begin, .end = output.text.size()});
    }
  }
}

void Renderer::loop(const JinjaStatement& s) {
  const JinjaValue whole = value_of(s);
  if (whole && !whole->is_array())
    fail_in_line(s.line, "a loop over what is no list is not supported");
  std::vector<JinjaValue> elements;
  for (std::size_t i = 0; whole && i < whole->size(); ++i) {
    JinjaValue element(whole, &(*whole)[i]);
    scopes_.begin();
    scopes_.set(s.name, element);
    if (!s.condition || is_true(evaluate(*s.condition, scopes_)))
      elements.push_back(std::move(element));
    scopes_.end();
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    scopes_.begin(JinjaLoop{.index = i, .length = elements.size()});
    scopes_.set(s.name, elements[i]);
    run(s.body);
    scopes_.end();
  }
  if (elements.empty()) run(s.otherwise);
}

void Renderer::assign(const JinjaStatement& s) {
  const JinjaExpression& expression = *s.expression;
  if (!s.attribute.empty()) {
    JinjaValue value = value_of(s);
    JinjaScopes::Namespace* const space = scopes_.namespace_of(s.name);
    if (!space)
      fail_in_line(s.line, fmt::format("{}.{} cannot be set: {} is no namespace", s.name,
                                       s.attribute, s.name));
    (*space)[s.attribute] = std::move(value);
    return;
  }
  if (!makes_namespace(expression)) return scopes_.set(s.name, value_of(s));
  JinjaScopes::Namespace members;
  for (const auto& [name, value] : expression.named) members[name] = evaluate(*value, scopes_);
  scopes_.set_namespace(s.name, std::move(members));
}

}  // namespace

JinjaTemplate::JinjaTemplate(std::string_view source)
    : body_(parse_jinja(source)), marks_generated_(has_generation(body_)) {}

JinjaOutput JinjaTemplate::render(const JinjaVariables& variables) const {
  Renderer renderer(variables);
  renderer.run(body_);
  return std::move(renderer.output);
}

}  // namespace troupe::stages
