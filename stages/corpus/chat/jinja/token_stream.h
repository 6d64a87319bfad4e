#pragma once

#include <string_view>
#include <vector>

#include "stages/corpus/chat/jinja/jinja_lexer.h"

namespace troupe::stages {

/// The tokens of a template while it is parsed.
class TokenStream {
 public:
  explicit TokenStream(std::string_view source) : tokens_(jinja_tokens(source)) {}

  const JinjaToken& next() const { return tokens_[at_]; }
  int line() const { return next().line; }
  bool at(JinjaToken::Kind kind) const { return next().kind == kind; }
  /// Whether the next token is this name or symbol.
  bool at(std::string_view text) const { return is_text(next(), text); }
  /// Whether a tag begins here with this name.
  bool at_block(std::string_view name) const {
    return at(JinjaToken::Kind::block_begin) && is_text(tokens_[at_ + 1], name);
  }

  /// Passes the next token and returns it. The last one stays.
  const JinjaToken& take();
  /// Passes the next token if it is this name or symbol.
  bool take_if(std::string_view text);
  // Throw as fail_in_line does if the next token is another.
  void expect(std::string_view text);
  const JinjaToken& expect(JinjaToken::Kind kind, std::string_view what);
  [[noreturn]] void fail_unexpected(std::string_view expected) const;

 private:
  static bool is_text(const JinjaToken& token, std::string_view text);

  std::vector<JinjaToken> tokens_;
  std::size_t at_ = 0;
};

}  // namespace troupe::stages
