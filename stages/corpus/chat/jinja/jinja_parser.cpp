#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "stages/corpus/chat/jinja/expression_parser.h"
#include "stages/corpus/chat/jinja/token_stream.h"

namespace troupe::stages {
namespace {

using Kind = JinjaStatement::Kind;
using Token = JinjaToken::Kind;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(source) {}

  JinjaBody whole() {
    JinjaBody body = statements({});
    if (!tokens_.at(Token::end)) tokens_.fail_unexpected("a statement");
    return body;
  }

 private:
  /// Parses statements up to a tag with one of these names, or the template's end.
  JinjaBody statements(std::initializer_list<std::string_view> ends);
  JinjaStatement statement();
  JinjaStatement output();
  JinjaStatement choice();
  JinjaStatement loop();
  JinjaStatement assignment();
  JinjaStatement macro();
  JinjaStatement call();
  JinjaStatement generation();
  /// Parses `break` or `continue`, which stand in a loop.
  JinjaStatement leaving(const std::string& name, Kind kind);
  std::vector<JinjaParameter> parameters();
  /// Parses the body of a statement up to the tag `end`, and that tag; `missing` says that there is
  /// none.
  JinjaBody body_until(std::string_view end, int line, std::string_view missing);
  /// Takes the begin of the tag that a body has ended at, and returns its name.
  std::string take_ending(int line, std::string_view missing);
  void end_tag() { tokens_.expect(Token::block_end, "%}"); }

  TokenStream tokens_;
  ExpressionParser expressions_{tokens_};
  int depth_ = 0;
  int loops_ = 0;  ///< those that are open here
};

JinjaBody Parser::statements(std::initializer_list<std::string_view> ends) {
  if (++depth_ > kDeepestJinja)
    fail_in_line(tokens_.line(), fmt::format("statements nest deeper than {}", kDeepestJinja));
  JinjaBody body;
  const auto is_next = [this](std::string_view name) { return tokens_.at_block(name); };
  while (!tokens_.at(Token::end) && std::ranges::none_of(ends, is_next))
    body.push_back(statement());
  --depth_;
  return body;
}

JinjaStatement Parser::statement() {
  const int line = tokens_.line();
  if (tokens_.at(Token::data)) return {.line = line, .name = tokens_.take().text};
  if (tokens_.at(Token::variable_begin)) return output();
  tokens_.expect(Token::block_begin, "a statement");
  const std::string name = tokens_.expect(Token::name, "a statement's name").text;
  if (name == "if") return choice();
  if (name == "for") return loop();
  if (name == "set") return assignment();
  if (name == "macro") return macro();
  if (name == "call") return call();
  if (name == "generation") return generation();
  if (name == "break") return leaving(name, Kind::leave);
  if (name == "continue") return leaving(name, Kind::next);
  fail_in_line(line, fmt::format("the statement {} is not supported", name));
}

JinjaStatement Parser::output() {
  const int line = tokens_.take().line;
  JinjaStatement whole{.kind = Kind::output, .line = line, .expression = expressions_.expression()};
  tokens_.expect(Token::variable_end, "}}");
  return whole;
}

JinjaStatement Parser::choice() {
  const int line = tokens_.line();
  JinjaStatement whole{
      .kind = Kind::choice, .line = line, .expression = expressions_.disjunction()};
  end_tag();
  whole.body = statements({"elif", "else", "endif"});
  const std::string end = take_ending(line, "an if has no endif");
  if (end == "elif") {
    if (++depth_ > kDeepestJinja)
      fail_in_line(line, fmt::format("an if with more than {} elif", kDeepestJinja));
    whole.otherwise.push_back(choice());  // the endif is its
    --depth_;
    return whole;
  }
  end_tag();
  if (end == "else") whole.otherwise = body_until("endif", line, "a if has no endif");
  return whole;
}

JinjaStatement Parser::loop() {
  const int line = tokens_.line();
  JinjaStatement whole{.kind = Kind::loop, .line = line};
  do {
    whole.targets.push_back(tokens_.expect(Token::name, "a variable's name").text);
  } while (tokens_.take_if(","));
  tokens_.expect("in");
  whole.expression = expressions_.disjunction();
  if (tokens_.take_if("if")) whole.condition = expressions_.expression();
  if (tokens_.at("recursive")) fail_in_line(line, "a recursive loop is not supported");
  end_tag();
  ++loops_;
  whole.body = statements({"else", "endfor"});
  --loops_;
  constexpr std::string_view kMissing = "a for has no endfor";
  const bool has_else = take_ending(line, kMissing) == "else";
  end_tag();
  if (has_else) whole.otherwise = body_until("endfor", line, kMissing);
  return whole;
}

JinjaStatement Parser::assignment() {
  const int line = tokens_.line();
  JinjaStatement whole{.kind = Kind::assignment,
                       .line = line,
                       .name = tokens_.expect(Token::name, "a variable's name").text};
  if (tokens_.take_if("."))
    whole.attribute = tokens_.expect(Token::name, "an attribute's name").text;
  if (tokens_.take_if("=")) {
    whole.expression = expressions_.expression();
    end_tag();
    return whole;
  }
  if (!tokens_.at(Token::block_end))
    fail_in_line(line, "a set of several variables, or with a filter, is not supported");
  end_tag();
  whole.kind = Kind::capture;
  whole.body = body_until("endset", line, "a set has no endset");
  return whole;
}

JinjaStatement Parser::macro() {
  const int line = tokens_.line();
  JinjaStatement whole{.kind = Kind::macro,
                       .line = line,
                       .name = tokens_.expect(Token::name, "a macro's name").text};
  if (!tokens_.at("(")) tokens_.fail_unexpected("(");
  whole.parameters = parameters();
  end_tag();
  const int loops = std::exchange(loops_, 0);
  whole.body = body_until("endmacro", line, "a macro has no endmacro");
  loops_ = loops;
  return whole;
}

JinjaStatement Parser::call() {
  const int line = tokens_.line();
  JinjaStatement whole{.kind = Kind::call, .line = line};
  if (tokens_.at("(")) whole.parameters = parameters();
  whole.expression = expressions_.expression();
  if (whole.expression->kind != JinjaExpression::Kind::call)
    fail_in_line(line, "a call block without a call");
  end_tag();
  const int loops = std::exchange(loops_, 0);
  whole.body = body_until("endcall", line, "a call has no endcall");
  loops_ = loops;
  return whole;
}

JinjaStatement Parser::generation() {
  const int line = tokens_.line();
  end_tag();
  const int loops = std::exchange(loops_, 0);
  JinjaStatement whole{.kind = Kind::generation,
                       .line = line,
                       .body = body_until("endgeneration", line,
                                          "a generation has no "
                                          "endgeneration")};
  loops_ = loops;
  return whole;
}

JinjaStatement Parser::leaving(const std::string& name, Kind kind) {
  const int line = tokens_.line();
  if (loops_ == 0) fail_in_line(line, fmt::format("a {} outside of a loop", name));
  end_tag();
  return {.kind = kind, .line = line};
}

std::vector<JinjaParameter> Parser::parameters() {
  std::vector<JinjaParameter> all;
  tokens_.expect("(");
  while (!tokens_.take_if(")")) {
    if (!all.empty()) tokens_.expect(",");
    all.push_back({.name = tokens_.expect(Token::name, "a parameter's name").text});
    if (tokens_.take_if("=")) all.back().otherwise = expressions_.expression();
  }
  return all;
}

JinjaBody Parser::body_until(std::string_view end, int line, std::string_view missing) {
  JinjaBody body = statements({end});
  take_ending(line, missing);
  end_tag();
  return body;
}

std::string Parser::take_ending(int line, std::string_view missing) {
  if (tokens_.at(Token::end)) fail_in_line(line, missing);
  tokens_.take();
  return tokens_.take().text;
}

}  // namespace

JinjaBody parse_jinja(std::string_view source) {
  return Parser(source).whole();
}

}  // namespace troupe::stages
