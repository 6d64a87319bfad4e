#include "stages/corpus/tokenizers/decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "stages/corpus/tokenizers/text/byte_alphabet.h"
#include "stages/corpus/tokenizers/text/utf8.h"

namespace troupe::stages {
namespace {

std::string joined(const std::vector<std::string>& tokens) {
  return fmt::format("{}", fmt::join(tokens, ""));
}

void replace(std::string& text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
}

/// The byte of a token <0xNN>.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned char byte = 0;
  const char* const end = token.data() + 5;
  const auto result = std::from_chars(token.data() + 3, end, byte, 16);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return static_cast<char>(byte);
}

}  // namespace

Decoder::Decoder(const std::optional<JsonPart>& part) : present_(part.has_value()) {
  if (part) read(*part);
}

void Decoder::read(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const JsonPart& step : part.at("decoders").items()) read(step);
  } else if (type == "ByteLevel") {
    steps_.emplace_back(ByteLevel{});
  } else if (type == "ByteFallback") {
    steps_.emplace_back(ByteFallback{});
  } else if (type == "Fuse") {
    steps_.emplace_back(Fuse{});
  } else if (type == "Replace") {
    steps_.push_back(read_replace(part));
  } else if (type == "Strip") {
    steps_.push_back(read_strip(part));
  } else if (type == "Metaspace") {
    steps_.emplace_back(Metaspace{.mark = part.at("replacement").text(),
                                  .prepended = part.text("prepend_scheme", "always") != "never"});
  } else {
    part.fail(
        fmt::format("decoder {} is none of ByteLevel, Replace, ByteFallback, Fuse, Strip, "
                    "Metaspace, Sequence",
                    type));
  }
}

Decoder::Step Decoder::read_replace(const JsonPart& part) {
  const JsonPart text = part.at("pattern").at("String");
  if (text.text().empty()) text.fail("must not be empty");
  return Replace{.text = text.text(), .with = part.at("content").text()};
}

Decoder::Step Decoder::read_strip(const JsonPart& part) {
  Strip strip{.character = part.at("content").text(),
              .at_start = part.at("start").integer(),
              .at_end = part.at("stop").integer()};
  if (strip.character.empty() || first_char_bytes(strip.character) != strip.character.size())
    part.at("content").fail("must be one character");
  return strip;
}

std::string Decoder::apply(std::vector<std::string> tokens) const {
  if (!present_) return fmt::format("{}", fmt::join(tokens, " "));
  for (const Step& step : steps_)
    std::visit([&tokens](const auto& kind) { apply(kind, tokens); }, step);
  return joined(tokens);
}

void Decoder::apply(const ByteLevel& /*step*/, std::vector<std::string>& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += bytes_of_letters(token).value_or(token);
  tokens = {valid_utf8(bytes)};
}

void Decoder::apply(const ByteFallback& /*step*/, std::vector<std::string>& tokens) {
  std::vector<std::string> result;
  std::string bytes;
  const auto end_bytes = [&] {
    if (bytes.empty()) return;
    if (!is_valid_utf8(bytes)) {  // tokenizers replaces every byte, not every invalid part
      std::string replaced;
      for (std::size_t i = 0; i < bytes.size(); ++i) replaced += "\xef\xbf\xbd";
      bytes = std::move(replaced);
    }
    result.push_back(std::exchange(bytes, {}));
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += *byte;
    } else {
      end_bytes();
      result.push_back(std::move(token));
    }
  }
  end_bytes();
  tokens = std::move(result);
}

void Decoder::apply(const Fuse& /*step*/, std::vector<std::string>& tokens) {
  tokens = {joined(tokens)};
}

void Decoder::apply(const Replace& step, std::vector<std::string>& tokens) {
  for (std::string& token : tokens) replace(token, step.text, step.with);
}

void Decoder::apply(const Strip& step, std::vector<std::string>& tokens) {
  for (std::string& token : tokens) {
    std::string_view rest = token;
    for (std::int64_t i = 0; i < step.at_start && rest.starts_with(step.character); ++i)
      rest.remove_prefix(step.character.size());
    for (std::int64_t i = 0; i < step.at_end && rest.ends_with(step.character); ++i)
      rest.remove_suffix(step.character.size());
    token = std::string(rest);
  }
}

void Decoder::apply(const Metaspace& step, std::vector<std::string>& tokens) {
  for (std::string& token : tokens)
    replace(token, step.mark, &token == tokens.data() && step.prepended ? "" : " ");
}

}  // namespace troupe::stages
