#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/corpus/tokenizers/models/bpe_model.h"

namespace troupe::stages {

/// The token that some base64 stands for; none if it is none.
std::optional<std::string> bytes_of_base64(std::string_view text);

/// Byte pair encoding as tiktoken has it: again and again the two neighbours are merged that
/// together are the token of the lowest rank. `tokens` are in the order of their ranks, and their
/// ids follow each other from `first_id` on. Throws Error{data} if one comes twice or a byte is
/// missing.
BpeModel ranked_bpe(const std::vector<std::string>& tokens, std::int32_t first_id);

}  // namespace troupe::stages
