#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "stages/corpus/tokens/token_file.h"

namespace troupe::stages {

/// Checks ids that begin at token `begin` of the file. Throws Error{data} with file, position and
/// id for the first one that is not one of 0 ... vocab_size-1.
void check_ids(const TokenFile& tokens, std::int64_t begin, std::span<const std::int32_t> ids,
               std::int64_t vocab_size);

/// Reads every token and checks its id. Returns the XXH64 of all ids as 32-bit numbers, and of
/// where masked spans begin and end, as 64-bit numbers: one stream of tokens has the same sum in
/// any file and with any width of ids.
std::string scan_tokens(const TokenFile& tokens, std::int64_t vocab_size);

}  // namespace troupe::stages
