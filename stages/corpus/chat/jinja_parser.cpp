#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stages/corpus/chat/expression_parser.h"
#include "stages/corpus/chat/token_stream.h"

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
  /// Parses the body of a statement up to the tag `end`, and that tag; `missing` says that there is
  /// none.
  JinjaBody body_until(std::string_view end, int line, std::string_view missing);
  /// Takes the begin of the tag that a body has ended at, and returns its name.
  std::string take_ending(int line, std::string_view missing);
  void end_tag() { tokens_.expect(Token::block_end, "%}"); }

  TokenStream tokens_;
  ExpressionParser expressions_{tokens_};
  int depth_ = 0;
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
  if (name == "generation") {
    end_tag();
    return {.kind = Kind::generation,
            .line = line,
            .body = body_until("endgeneration", line, "a generation has no endgeneration")};
  }
  if (name == "break" || name == "continue") {
    end_tag();
    return {.kind = Kind::refused, .line = line, .name = "the statement " + name};
  }
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
  JinjaStatement whole{.kind = Kind::loop,
                       .line = line,
                       .name = tokens_.expect(Token::name, "a variable's name").text};
  while (tokens_.take_if(",")) {
    tokens_.expect(Token::name, "a variable's name");
    whole.kind = Kind::refused;
  }
  tokens_.expect("in");
  whole.expression = expressions_.disjunction();
  if (tokens_.take_if("if")) whole.condition = expressions_.expression();
  if (tokens_.at("recursive")) fail_in_line(line, "a recursive loop is not supported");
  end_tag();
  whole.body = statements({"else", "endfor"});
  constexpr std::string_view kMissing = "a for has no endfor";
  const bool has_else = take_ending(line, kMissing) == "else";
  end_tag();
  if (has_else) whole.otherwise = body_until("endfor", line, kMissing);
  if (whole.kind == Kind::refused) whole.name = "a loop with several variables";
  return whole;
}

JinjaStatement Parser::assignment() {
  const int line = tokens_.line();
  JinjaStatement whole{.kind = Kind::assignment,
                       .line = line,
                       .name = tokens_.expect(Token::name, "a variable's name").text};
  if (tokens_.take_if("."))
    whole.attribute = tokens_.expect(Token::name, "an attribute's name").text;
  if (!tokens_.take_if("="))
    fail_in_line(line, "a set without = after one variable is not supported");
  whole.expression = expressions_.expression();
  end_tag();
  return whole;
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
