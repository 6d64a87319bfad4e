#pragma once

#include <string_view>

#include "stages/corpus/chat/jinja/jinja_tree.h"
#include "stages/corpus/chat/jinja/token_stream.h"

namespace troupe::stages {

/// Parses expressions by the grammar and the order of operators that Jinja has. Names of functions,
/// filters and tests are looked up when they are used: what a template does not come to, as its
/// handling of tools, may be outside of what is supported.
class ExpressionParser {
 public:
  /// The stream outlives the parser.
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  /// Parses an expression with `a if b else c`.
  JinjaExpression::Pointer expression();
  /// Parses one without, as the list that a loop goes through is.
  JinjaExpression::Pointer disjunction();

 private:
  using Pointer = JinjaExpression::Pointer;

  /// Parses operators of a level, and of those that bind closer.
  Pointer operation(int level);
  Pointer negation();
  Pointer unary();
  Pointer primary();
  Pointer named_value();
  Pointer list();
  Pointer in_parentheses();
  Pointer object();
  Pointer with_members(Pointer target);
  Pointer with_filters(Pointer target);
  Pointer subscript(Pointer target);
  Pointer test(Pointer target);
  bool at_test_argument() const;
  void arguments(JinjaExpression& call);

  TokenStream& tokens_;
  int depth_ = 0;
};

}  // namespace troupe::stages
