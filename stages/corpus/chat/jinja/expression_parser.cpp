#include "stages/corpus/chat/jinja/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace troupe::stages {
namespace {

using Expression = JinjaExpression;
using Pointer = Expression::Pointer;
using Kind = Expression::Kind;
using Token = JinjaToken::Kind;

void add_part(Expression& whole, Pointer part) {
  if (part) whole.depth = std::max(whole.depth, part->depth + 1);
  if (whole.depth > kDeepestJinja)
    fail_in_line(whole.line, fmt::format("expressions nest deeper than {}", kDeepestJinja));
  whole.parts.push_back(std::move(part));
}

template <typename... Parts>
Pointer make(Kind kind, int line, std::string name, Parts... parts) {
  auto whole =
      std::make_unique<Expression>(Expression{.kind = kind, .line = line, .name = std::move(name)});
  (add_part(*whole, std::move(parts)), ...);
  return whole;
}

Pointer literal(int line, JinjaValue value) {
  Pointer whole = make(Kind::literal, line, "");
  whole->value = std::move(value);
  return whole;
}

/// The operators of two values, with the level of each: those of a higher one bind closer. The
/// levels between and above them are those of operators of one value.
struct Operator {
  std::string_view name;
  int level;
};
constexpr int kNot = 2, kComparison = 3, kProduct = 6, kUnary = 7;
constexpr auto kOperators = std::to_array<Operator>({{"or", 0},
                                                     {"and", 1},
                                                     {"==", kComparison},
                                                     {"!=", kComparison},
                                                     {"<", kComparison},
                                                     {"<=", kComparison},
                                                     {">", kComparison},
                                                     {">=", kComparison},
                                                     {"in", kComparison},
                                                     {"not", kComparison},
                                                     {"+", 4},
                                                     {"-", 4},
                                                     {"~", 5},
                                                     {"*", kProduct},
                                                     {"/", kProduct},
                                                     {"//", kProduct},
                                                     {"%", kProduct}});

/// Counts how deep the parser is in itself.
class Level {
 public:
  Level(int& depth, int line) : depth_(depth) {
    if (++depth_ > kDeepestJinja)
      fail_in_line(line, fmt::format("expressions nest deeper than {}", kDeepestJinja));
  }
  ~Level() { --depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int& depth_;
};

}  // namespace

Pointer ExpressionParser::expression() {
  const Level level(depth_, tokens_.line());
  Pointer value = disjunction();
  while (tokens_.at("if")) {
    const int line = tokens_.take().line;
    Pointer condition = disjunction();
    Pointer otherwise = tokens_.take_if("else") ? expression() : nullptr;
    value =
        make(Kind::choice, line, "", std::move(condition), std::move(value), std::move(otherwise));
  }
  return value;
}

Pointer ExpressionParser::disjunction() {
  return operation(0);
}

Pointer ExpressionParser::operation(int level) {
  if (level == kNot) return negation();
  if (level == kUnary) return unary();
  Pointer left = operation(level + 1);
  const auto is_next = [&](const Operator& one) {
    return one.level == level && tokens_.at(one.name);
  };
  for (bool is_first = true; std::ranges::any_of(kOperators, is_next); is_first = false) {
    const JinjaToken& found = tokens_.take();
    std::string name = found.text;
    if (name == "not") {
      tokens_.expect("in");
      name = "not in";
    }
    if (level == kComparison && !is_first)
      fail_in_line(found.line, "several comparisons in a row are not supported");
    Pointer right = operation(level + 1);
    left = make(Kind::binary, found.line, name, std::move(left), std::move(right));
  }
  if (level == kProduct && tokens_.at("**"))
    fail_in_line(tokens_.line(), "the operator ** is not supported");
  return left;
}

Pointer ExpressionParser::negation() {
  const Level level(depth_, tokens_.line());
  const int line = tokens_.line();
  if (tokens_.take_if("not")) return make(Kind::unary, line, "not", negation());
  return operation(kComparison);
}

Pointer ExpressionParser::unary() {
  const Level level(depth_, tokens_.line());
  if (tokens_.at("-")) {
    const int line = tokens_.take().line;
    return with_filters(make(Kind::unary, line, "-", with_members(primary())));
  }
  return with_filters(with_members(primary()));
}

Pointer ExpressionParser::primary() {
  const int line = tokens_.line();
  if (tokens_.at(Token::name)) return named_value();
  if (tokens_.at(Token::integer)) return literal(line, std::stoll(tokens_.take().text));
  if (tokens_.at(Token::number))
    return literal(line, std::strtod(tokens_.take().text.c_str(), nullptr));
  if (tokens_.at(Token::string)) {
    std::string text;  // strings side by side are one
    while (tokens_.at(Token::string)) text += tokens_.take().text;
    return literal(line, std::move(text));
  }
  if (tokens_.take_if("[")) return list();
  if (tokens_.take_if("(")) return in_parentheses();
  if (tokens_.take_if("{")) return object();
  tokens_.fail_unexpected("a value");
}

Pointer ExpressionParser::named_value() {
  const JinjaToken& name = tokens_.take();
  if (name.text == "true" || name.text == "True") return literal(name.line, true);
  if (name.text == "false" || name.text == "False") return literal(name.line, false);
  if (name.text == "none" || name.text == "None") return literal(name.line, nullptr);
  return make(Kind::variable, name.line, name.text);
}

Pointer ExpressionParser::list() {
  Pointer whole = make(Kind::list, tokens_.line(), "");
  while (!tokens_.take_if("]")) {
    if (!whole->parts.empty()) {
      tokens_.expect(",");
      if (tokens_.take_if("]")) break;
    }
    add_part(*whole, expression());
  }
  return whole;
}

/// Parses a tuple, or one value in parentheses.
Pointer ExpressionParser::in_parentheses() {
  Pointer tuple = make(Kind::tuple, tokens_.line(), "");
  if (tokens_.take_if(")")) return tuple;
  Pointer first = expression();
  if (tokens_.take_if(")")) return first;
  add_part(*tuple, std::move(first));
  while (!tokens_.take_if(")")) {
    tokens_.expect(",");
    if (tokens_.take_if(")")) break;
    add_part(*tuple, expression());
  }
  return tuple;
}

Pointer ExpressionParser::object() {
  Pointer whole = make(Kind::object, tokens_.line(), "");
  while (!tokens_.take_if("}")) {
    if (!whole->parts.empty()) {
      tokens_.expect(",");
      if (tokens_.take_if("}")) break;
    }
    add_part(*whole, expression());
    tokens_.expect(":");
    add_part(*whole, expression());
  }
  return whole;
}

Pointer ExpressionParser::with_members(Pointer target) {
  for (;;) {
    const int line = tokens_.line();
    if (tokens_.take_if(".")) {
      const std::string name = tokens_.expect(Token::name, "a member's name").text;
      target = make(Kind::attribute, line, name, std::move(target));
    } else if (tokens_.take_if("[")) {
      target = subscript(std::move(target));
    } else if (tokens_.at("(")) {
      target = make(Kind::call, line, "", std::move(target));
      arguments(*target);
    } else {
      return target;
    }
  }
}

Pointer ExpressionParser::subscript(Pointer target) {
  const int line = tokens_.line();
  const auto bound = [this] {
    const bool is_missing = tokens_.at(":") || tokens_.at("]");
    return is_missing ? nullptr : expression();
  };
  Pointer begin = bound();
  if (!tokens_.take_if(":")) {
    tokens_.expect("]");
    if (!begin) fail_in_line(line, "expected a value, found ]");
    return make(Kind::element, line, "", std::move(target), std::move(begin));
  }
  Pointer end = bound();
  Pointer step = tokens_.take_if(":") ? bound() : nullptr;
  tokens_.expect("]");
  return make(Kind::slice, line, "", std::move(target), std::move(begin), std::move(end),
              std::move(step));
}

Pointer ExpressionParser::with_filters(Pointer target) {
  for (;;) {
    if (tokens_.take_if("|")) {
      const JinjaToken& name = tokens_.expect(Token::name, "a filter's name");
      target = make(Kind::filter, name.line, name.text, std::move(target));
      if (tokens_.at("(")) arguments(*target);
    } else if (tokens_.take_if("is")) {
      target = test(std::move(target));
    } else {
      return target;
    }
  }
}

Pointer ExpressionParser::test(Pointer target) {
  const bool is_negated = tokens_.take_if("not");
  const JinjaToken& name = tokens_.expect(Token::name, "a test's name");
  Pointer whole = make(Kind::test, name.line, name.text, std::move(target));
  if (tokens_.at("("))
    arguments(*whole);
  else if (at_test_argument())
    add_part(*whole, with_members(primary()));
  return is_negated ? make(Kind::unary, name.line, "not", std::move(whole)) : std::move(whole);
}

/// Whether a value follows that is the argument of a test without parentheses.
bool ExpressionParser::at_test_argument() const {
  constexpr std::array<std::string_view, 7> kOthers{"and", "or", "else", "if", "in", "not", "is"};
  if (tokens_.at(Token::name))
    return std::ranges::none_of(kOthers, [this](auto name) { return tokens_.at(name); });
  return tokens_.at(Token::string) || tokens_.at(Token::integer) || tokens_.at(Token::number) ||
         tokens_.at("[") || tokens_.at("{");
}

void ExpressionParser::arguments(Expression& call) {
  tokens_.expect("(");
  for (bool is_first = true; !tokens_.take_if(")"); is_first = false) {
    if (!is_first) {
      tokens_.expect(",");
      if (tokens_.take_if(")")) return;
    }
    Pointer argument = expression();
    if (argument->kind == Kind::variable && tokens_.take_if("="))
      call.named.emplace_back(argument->name, expression());
    else
      add_part(call, std::move(argument));
  }
}

}  // namespace troupe::stages
