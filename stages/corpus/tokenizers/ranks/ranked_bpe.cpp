#include "stages/corpus/tokenizers/ranks/ranked_bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "stages/corpus/tokenizers/text/byte_alphabet.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string spelled(std::string_view bytes) {
  std::string letters;
  for (const char byte : bytes) letters += letter_of_byte(static_cast<unsigned char>(byte));
  return letters;
}

}  // namespace

std::optional<std::string> bytes_of_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  const std::size_t end = text.find_last_not_of('=') + 1;
  if (text.size() % 4 != 0 || text.size() - end > 2) return std::nullopt;
  for (const char c : text.substr(0, end)) {
    const std::size_t value = kBase64.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    if ((count += 6) < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

BpeModel ranked_bpe(const std::vector<std::string>& tokens, std::int32_t first_id) {
  std::unordered_map<std::string_view, std::int32_t> ids;
  ids.reserve(tokens.size());
  BpeModel model{.vocabulary = {}, .ignore_merges = true, .ranks_are_ids = true};
  for (const std::string& token : tokens) {
    const auto id = static_cast<std::int32_t>(first_id + std::ssize(ids));
    if (token.empty() || !ids.emplace(token, id).second)
      throw Error(ErrorKind::data,
                  fmt::format("the token of rank {} is {}", id - first_id,
                              token.empty() ? "empty" : "that of another rank too"));
    model.vocabulary.emplace(spelled(token), id);
  }
  for (unsigned byte = 0; byte < 256; ++byte)
    if (!ids.contains(std::string(1, static_cast<char>(byte))))
      throw Error(ErrorKind::data, fmt::format("the byte 0x{:02X} is no token", byte));
  for (const std::string& token : tokens)
    for (std::size_t left = 1; left < token.size(); ++left) {
      const auto before = ids.find(std::string_view(token).substr(0, left)),
                 after = ids.find(std::string_view(token).substr(left));
      if (before != ids.end() && after != ids.end())
        model.merges.push_back(
            {.left = before->second, .right = after->second, .result = ids.at(token)});
    }
  return model;
}

}  // namespace troupe::stages
