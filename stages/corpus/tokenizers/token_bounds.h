#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "stages/corpus/tokenizers/tokenizer.h"

namespace troupe::stages {

/// How many of the ids of a text lie before each of some bytes of it, given in ascending order. A
/// token that lies before and behind such a byte counts as behind: the tokens before it are those
/// that the text has, too, when it ends there. Each of the bytes costs as much as encoding the text
/// up to it.
std::vector<std::size_t> tokens_before(const Tokenizer& tokenizer, std::string_view text,
                                       std::span<const std::int32_t> ids,
                                       std::span<const std::size_t> bytes);

}  // namespace troupe::stages
