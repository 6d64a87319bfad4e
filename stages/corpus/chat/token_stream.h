#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stages/corpus/chat/jinja_lexer.h"

namespace troupe::stages {

/// The tokens of a template while it is parsed.
class TokenStream {
 public:
  explicit TokenStream(std::string_view source) : tokens_(jinja_tokens(source)) {}

  const JinjaToken& next() const { return tokens_[at_]; }
  int line() const { return next().line; }
  bool at(JinjaToken::Kind kind) const { return next().kind == kind; }
  bool at_symbol(std::string_view text) const;
  bool at_name(std::string_view text) const;
  /// Whether a tag begins here with this name.
  bool at_block(std::string_view name) const;

  /// Passes the next token and returns it. The last one stays.
  const JinjaToken& take();
  bool take_symbol(std::string_view text);
  bool take_name(std::string_view text);
  // Throw as fail_in_line does if the next token is another.
  void expect_symbol(std::string_view text);
  void expect_name(std::string_view text);
  const JinjaToken& expect(JinjaToken::Kind kind, std::string_view what);
  [[noreturn]] void fail_unexpected(std::string_view expected) const;

 private:
  std::vector<JinjaToken> tokens_;
  std::size_t at_ = 0;
};

}  // namespace troupe::stages
