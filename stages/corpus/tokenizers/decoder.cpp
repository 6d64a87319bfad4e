#include "stages/corpus/tokenizers/decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <ranges>
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

using Tokens = std::vector<std::string>;

/// Letters of GPT-2's alphabet become bytes, and these one text.
Decoder::Step read_byte_level(const JsonPart& /*part*/) {
  return [](Tokens& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) bytes += bytes_of_letters(token).value_or(token);
    tokens = {valid_utf8(bytes)};
  };
}

Decoder::Step read_fuse(const JsonPart& /*part*/) {
  return [](Tokens& tokens) { tokens = {joined(tokens)}; };
}

Decoder::Step read_replace(const JsonPart& part) {
  const JsonPart pattern = part.at("pattern").at("String");
  if (pattern.text().empty()) pattern.fail("must not be empty");
  return [what = pattern.text(), with = part.at("content").text()](Tokens& tokens) {
    for (std::string& token : tokens) replace(token, what, with);
  };
}

/// Neighbours <0x00> ... <0xFF> become one text.
void join_bytes(Tokens& tokens) {
  Tokens result;
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

Decoder::Step read_byte_fallback(const JsonPart& /*part*/) {
  return join_bytes;
}

/// Takes characters from both ends of each token, at most so many.
Decoder::Step read_strip(const JsonPart& part) {
  const std::string character = part.at("content").text();
  const std::int64_t at_start = part.at("start").integer(), at_end = part.at("stop").integer();
  if (character.empty() || first_char_bytes(character) != character.size())
    part.at("content").fail("must be one character");
  return [=](Tokens& tokens) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::int64_t i = 0; i < at_start && rest.starts_with(character); ++i)
        rest.remove_prefix(character.size());
      for (std::int64_t i = 0; i < at_end && rest.ends_with(character); ++i)
        rest.remove_suffix(character.size());
      token = std::string(rest);
    }
  };
}

/// The mark becomes a space, or in the first token nothing if texts got one put before them.
Decoder::Step read_metaspace(const JsonPart& part) {
  return [mark = part.at("replacement").text(),
          prepended = part.text("prepend_scheme", "always") != "never"](Tokens& tokens) {
    for (std::string& token : tokens)
      replace(token, mark, &token == tokens.data() && prepended ? "" : " ");
  };
}

/// Takes away the spaces that are not written in English text.
void clean_up(std::string& text) {
  constexpr auto kReplaced =
      std::to_array<std::pair<std::string_view, std::string_view>>({{" .", "."},
                                                                    {" ?", "?"},
                                                                    {" !", "!"},
                                                                    {" ,", ","},
                                                                    {" ' ", "'"},
                                                                    {" n't", "n't"},
                                                                    {" 'm", "'m"},
                                                                    {" do not", " don't"},
                                                                    {" 's", "'s"},
                                                                    {" 've", "'ve"},
                                                                    {" 're", "'re"}});
  for (const auto& [what, with] : kReplaced) replace(text, what, with);
}

/// A token without the prefix begins a word.
Decoder::Step read_word_piece(const JsonPart& part) {
  return
      [prefix = part.text("prefix", "##"), cleans_up = part.flag("cleanup", true)](Tokens& tokens) {
        for (std::string& token : tokens) {
          if (&token != tokens.data())
            token = token.starts_with(prefix) ? token.substr(prefix.size()) : ' ' + token;
          if (cleans_up) clean_up(token);
        }
      };
}

struct DecoderKind {
  std::string_view name;
  Decoder::Step (*read)(const JsonPart& part);
};
constexpr auto kDecoderKinds = std::to_array<DecoderKind>({{"ByteLevel", read_byte_level},
                                                           {"Replace", read_replace},
                                                           {"ByteFallback", read_byte_fallback},
                                                           {"Fuse", read_fuse},
                                                           {"Strip", read_strip},
                                                           {"Metaspace", read_metaspace},
                                                           {"WordPiece", read_word_piece}});

}  // namespace

Decoder::Decoder(const std::optional<JsonPart>& part) : present_(part.has_value()) {
  if (part) read(*part);
}

void Decoder::read(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const JsonPart& step : part.at("decoders").items()) read(step);
    return;
  }
  const auto* const kind = std::ranges::find(kDecoderKinds, type, &DecoderKind::name);
  if (kind == kDecoderKinds.end())
    part.fail(
        fmt::format("decoder {} is none of {}, Sequence", type,
                    fmt::join(std::views::transform(kDecoderKinds, &DecoderKind::name), ", ")));
  steps_.push_back(kind->read(part));
}

std::string Decoder::apply(std::vector<std::string> tokens) const {
  if (!present_) return fmt::format("{}", fmt::join(tokens, " "));
  for (const Step& step : steps_) step(tokens);
  return joined(tokens);
}

}  // namespace troupe::stages
