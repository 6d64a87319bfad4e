#include "stages/corpus/chat/jinja/token_stream.h"

#include <fmt/format.h>

#include <array>

namespace troupe::stages {
namespace {

/// How messages name a token, by its kind; empty: by its text.
constexpr std::array<std::string_view, 11> kNames{
    "text", "{%", "%}", "{{", "}}", "", "a string", "", "", "", "the template's end"};
static_assert(static_cast<std::size_t>(JinjaToken::Kind::end) + 1 == kNames.size());

}  // namespace

bool TokenStream::is_text(const JinjaToken& token, std::string_view text) {
  const bool has_text =
      token.kind == JinjaToken::Kind::name || token.kind == JinjaToken::Kind::symbol;
  return has_text && token.text == text;
}

const JinjaToken& TokenStream::take() {
  const JinjaToken& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenStream::take_if(std::string_view text) {
  if (!at(text)) return false;
  take();
  return true;
}

void TokenStream::expect(std::string_view text) {
  if (!take_if(text)) fail_unexpected(text);
}

const JinjaToken& TokenStream::expect(JinjaToken::Kind kind, std::string_view what) {
  if (!at(kind)) fail_unexpected(what);
  return take();
}

void TokenStream::fail_unexpected(std::string_view expected) const {
  const std::string_view name = kNames[static_cast<std::size_t>(next().kind)];
  fail_in_line(line(), fmt::format("expected {}, found {}", expected,
                                   name.empty() ? std::string_view(next().text) : name));
}

}  // namespace troupe::stages
