#include "stages/corpus/chat/token_stream.h"

#include <fmt/format.h>

namespace troupe::stages {

using Kind = JinjaToken::Kind;

namespace {

std::string_view describe(const JinjaToken& token) {
  switch (token.kind) {
    case Kind::data:
      return "text";
    case Kind::block_begin:
      return "{%";
    case Kind::block_end:
      return "%}";
    case Kind::variable_begin:
      return "{{";
    case Kind::variable_end:
      return "}}";
    case Kind::end:
      return "the template's end";
    case Kind::string:
      return "a string";
    default:
      return token.text;
  }
}

}  // namespace

bool TokenStream::at_symbol(std::string_view text) const {
  return at(Kind::symbol) && next().text == text;
}

bool TokenStream::at_name(std::string_view text) const {
  return at(Kind::name) && next().text == text;
}

bool TokenStream::at_block(std::string_view name) const {
  return at(Kind::block_begin) && tokens_[at_ + 1].kind == Kind::name &&
         tokens_[at_ + 1].text == name;
}

const JinjaToken& TokenStream::take() {
  const JinjaToken& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::take_symbol(std::string_view text) {
  if (!at_symbol(text)) return false;
  take();
  return true;
}

bool TokenStream::take_name(std::string_view text) {
  if (!at_name(text)) return false;
  take();
  return true;
}

void TokenStream::expect_symbol(std::string_view text) {
  if (!take_symbol(text)) fail_unexpected(text);
}

void TokenStream::expect_name(std::string_view text) {
  if (!take_name(text)) fail_unexpected(text);
}

const JinjaToken& TokenStream::expect(Kind kind, std::string_view what) {
  if (!at(kind)) fail_unexpected(what);
  return take();
}

void TokenStream::fail_unexpected(std::string_view expected) const {
  fail_in_line(line(), fmt::format("expected {}, found {}", expected, describe(next())));
}

}  // namespace troupe::stages
