#include "stages/corpus/chat/jinja/jinja_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "stages/corpus/chat/jinja/jinja_evaluator.h"
#include "stages/corpus/chat/jinja/jinja_lexer.h"
#include "stages/corpus/chat/jinja/values/jinja_operators.h"
#include "stages/corpus/chat/jinja/values/jinja_text.h"

namespace troupe::stages {
namespace {

using Kind = JinjaStatement::Kind;

bool has_generation(const JinjaBody& body) {
  return std::ranges::any_of(body, [](const JinjaStatement& statement) {
    return statement.kind == Kind::generation || has_generation(statement.body) ||
           has_generation(statement.otherwise);
  });
}

/// The member of a loop in its i-th pass.
JinjaValue loop_at(const JinjaList& all, std::size_t i) {
  const std::size_t size = all.size();
  return JinjaValue::object({{"index", i + 1},
                             {"index0", i},
                             {"revindex", size - i},
                             {"revindex0", size - i - 1},
                             {"first", i == 0},
                             {"last", i + 1 == size},
                             {"length", size},
                             {"previtem", i > 0 ? all[i - 1] : JinjaValue()},
                             {"nextitem", i + 1 < size ? all[i + 1] : JinjaValue()}},
                            JinjaValue::Kind::loop);
}

class Renderer {
 public:
  explicit Renderer(const JinjaVariables& variables) : scopes_(variables) {}

  /// What comes behind a statement.
  enum class Flow { on, next_pass, loop_end };
  Flow run(const JinjaBody& body) {
    Flow flow = Flow::on;
    for (auto statement = body.begin(); statement != body.end() && flow == Flow::on; ++statement)
      flow = run(*statement);
    return flow;
  }

  JinjaOutput output;

 private:
  Flow run(const JinjaStatement& s);
  Flow loop(const JinjaStatement& s);
  void set_targets(const JinjaStatement& s, const JinjaValue& element);
  void assign(const JinjaStatement& s, JinjaValue value);
  void generation(const JinjaStatement& s);
  /// What a body writes.
  std::string captured(const JinjaBody& body);
  std::string call_macro(const JinjaMacro& macro, JinjaArguments& given);
  void set_parameters(const JinjaStatement& definition, JinjaArguments& given);
  JinjaValue macro_of(const JinjaStatement& s) const {
    return JinjaValue::macro({.definition = &s, .scope = scopes_.current()});
  }
  JinjaValue value_of(const JinjaStatement& s) const { return evaluator_.value_of(*s.expression); }

  JinjaScopes scopes_;
  JinjaEvaluator evaluator_{scopes_, [this](const JinjaMacro& macro, JinjaArguments& given) {
                              return call_macro(macro, given);
                            }};
  int captures_ = 0;  ///< bodies whose text is a value, not a part of the output
  int calls_ = 0;     ///< of macros that are running
};

Renderer::Flow Renderer::run(const JinjaStatement& s) {
  switch (s.kind) {
    case Kind::data:
      output.text += s.name;
      break;
    case Kind::output:
      output.text += text_of(value_of(s), s.line);
      break;
    case Kind::choice:
      return run(is_true(value_of(s)) ? s.body : s.otherwise);
    case Kind::loop:
      return loop(s);
    case Kind::assignment:
      assign(s, value_of(s));
      break;
    case Kind::capture:
      assign(s, captured(s.body));
      break;
    case Kind::macro:
      scopes_.set(s.name, macro_of(s));
      break;
    case Kind::call:
      output.text += text_of(evaluator_.call(*s.expression, "caller", macro_of(s)), s.line);
      break;
    case Kind::generation:
      generation(s);
      break;
    case Kind::leave:
      return Flow::loop_end;
    case Kind::next:
      return Flow::next_pass;
  }
  return Flow::on;
}

Renderer::Flow Renderer::loop(const JinjaStatement& s) {
  JinjaList all;
  for (JinjaValue& element : elements_of(value_of(s), s.line)) {
    scopes_.begin();
    set_targets(s, element);
    if (!s.condition || is_true(evaluator_.value_of(*s.condition)))
      all.push_back(std::move(element));
    scopes_.end();
  }
  Flow flow = Flow::on;
  for (std::size_t i = 0; i < all.size() && flow != Flow::loop_end; ++i) {
    scopes_.begin();
    scopes_.set("loop", loop_at(all, i));
    set_targets(s, all[i]);
    flow = run(s.body);
    scopes_.end();
  }
  return all.empty() ? run(s.otherwise) : Flow::on;
}

void Renderer::set_targets(const JinjaStatement& s, const JinjaValue& element) {
  if (s.targets.size() == 1) return scopes_.set(s.targets[0], element);
  const JinjaList parts = elements_of(element, s.line);
  if (parts.size() != s.targets.size())
    fail_in_line(s.line, fmt::format("an element of {} parts for {} variables", parts.size(),
                                     s.targets.size()));
  for (std::size_t i = 0; i < parts.size(); ++i) scopes_.set(s.targets[i], parts[i]);
}

void Renderer::assign(const JinjaStatement& s, JinjaValue value) {
  if (s.attribute.empty()) return scopes_.set(s.name, std::move(value));
  const JinjaValue whole = scopes_.value_of(s.name, s.line);
  if (!whole.is(JinjaValue::Kind::space))
    fail_in_line(s.line, fmt::format("{}.{} cannot be set: {} is no namespace", s.name, s.attribute,
                                     s.name));
  whole.space()[s.attribute] = std::move(value);
}

void Renderer::generation(const JinjaStatement& s) {
  if (captures_ > 0)
    fail_in_line(s.line, "what is generated inside of a macro or a set is not supported");
  const std::size_t begin = output.text.size();
  scopes_.begin();
  run(s.body);
  scopes_.end();
  output.generated.push_back({.begin = begin, .end = output.text.size()});
}

std::string Renderer::captured(const JinjaBody& body) {
  ++captures_;
  std::string outer = std::exchange(output.text, {});
  scopes_.begin();
  run(body);
  scopes_.end();
  --captures_;
  return std::exchange(output.text, std::move(outer));
}

std::string Renderer::call_macro(const JinjaMacro& macro, JinjaArguments& given) {
  constexpr int kMostCalls = 40;  // each may have statements that nest deeply on the stack
  const std::shared_ptr<JinjaScope> scope = macro.scope.lock();
  if (!scope) given.fail("where its loop has ended");
  if (++calls_ > kMostCalls) given.fail(fmt::format("in {} calls of macros", kMostCalls));
  const std::shared_ptr<JinjaScope> caller = scopes_.enter(scope);
  scopes_.begin();
  set_parameters(*macro.definition, given);
  std::string text = captured(macro.definition->body);
  scopes_.enter(caller);
  --calls_;
  return text;
}

void Renderer::set_parameters(const JinjaStatement& definition, JinjaArguments& given) {
  // The one of a {% call %} comes by name; without one there is none, whatever is around.
  if (definition.kind == Kind::macro) scopes_.set("caller", {});
  for (const auto& [name, otherwise] : definition.parameters) {
    auto value = given.take(name);
    if (!value && otherwise) value = evaluator_.value_of(*otherwise);
    scopes_.set(name, value.value_or(JinjaValue()));
  }
  if (definition.kind == Kind::macro)
    if (auto caller = given.take_by_name("caller")) scopes_.set("caller", *std::move(caller));
  given.expect_none();
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
