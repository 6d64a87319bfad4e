#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/text/json_part.h"
#include "stages/corpus/tokenizers/text/text_hash.h"

namespace troupe::stages {

/// Ids are below this: it bounds the memory that a file can ask for.
inline constexpr std::int64_t kMostTokens = 1 << 24;

/// Reads an object of tokens with their ids. Throws Error{data} with what is wrong, as an id that
/// two tokens have.
Vocabulary read_vocabulary(const JsonPart& part);

/// The id of the token that a member of a model names; none without the member. Throws Error{data}
/// if the vocabulary lacks it.
std::optional<std::int32_t> read_token(const JsonPart& model, const char* member,
                                       const Vocabulary& vocabulary);

/// By byte: the token <0xNN>, for characters that are not in the vocabulary.
using ByteTokens = std::array<std::optional<std::int32_t>, 256>;
ByteTokens byte_tokens_of(const Vocabulary& vocabulary);
/// Appends the byte tokens of a text, if there is one for each of its bytes.
bool add_byte_tokens(std::string_view text, const ByteTokens& tokens,
                     std::vector<std::int32_t>& ids);

}  // namespace troupe::stages
