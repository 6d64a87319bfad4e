#include "stages/corpus/tokenizers/models/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

namespace troupe::stages {

Vocabulary read_vocabulary(const JsonPart& part) {
  if (!part.value().is_object()) part.fail("must be an object");
  Vocabulary vocabulary;
  std::unordered_map<std::int32_t, std::string_view> tokens;
  for (const auto& [token, id] : part.value().items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= kMostTokens)
      part.fail(fmt::format("the id {} of the token \"{}\" is not an integer below {}", id.dump(),
                            token, kMostTokens));
    const auto entry = vocabulary.emplace(token, id.get<std::int32_t>()).first;
    const auto [other, is_new] = tokens.emplace(entry->second, entry->first);
    if (!is_new)
      part.fail(fmt::format("the tokens \"{}\" and \"{}\" have the same id {}", other->second,
                            token, entry->second));
  }
  if (vocabulary.empty()) part.fail("has no token");
  return vocabulary;
}

std::optional<std::int32_t> read_token(const JsonPart& model, const char* member,
                                       const Vocabulary& vocabulary) {
  const auto token = model.find(member);
  if (!token) return std::nullopt;
  const auto found = vocabulary.find(token->text());
  if (found == vocabulary.end())
    token->fail(fmt::format("the token \"{}\" is not in the vocabulary", token->text()));
  return found->second;
}

ByteTokens byte_tokens_of(const Vocabulary& vocabulary) {
  ByteTokens tokens;
  for (unsigned byte = 0; byte < tokens.size(); ++byte) {
    const auto token = vocabulary.find(fmt::format("<0x{:02X}>", byte));
    if (token != vocabulary.end()) tokens[byte] = token->second;
  }
  return tokens;
}

bool add_byte_tokens(std::string_view text, const ByteTokens& tokens,
                     std::vector<std::int32_t>& ids) {
  const auto token_of = [&](char byte) { return tokens[static_cast<unsigned char>(byte)]; };
  if (!std::ranges::all_of(text, [&](char byte) { return token_of(byte).has_value(); }))
    return false;
  for (const char byte : text) ids.push_back(*token_of(byte));
  return true;
}

}  // namespace troupe::stages
