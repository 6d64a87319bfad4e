#include "stages/corpus/tokenizers/token_bounds.h"

#include <algorithm>

namespace troupe::stages {

std::vector<std::size_t> tokens_before(const Tokenizer& tokenizer, std::string_view text,
                                       std::span<const std::int32_t> ids,
                                       std::span<const std::size_t> bytes) {
  std::vector<std::size_t> counts;
  for (const std::size_t byte : bytes) {
    // From the text's begin: what a tokenizer puts before a part of it would be taken for text.
    const auto before = tokenizer.encode(text.substr(0, byte));
    const auto same =
        static_cast<std::size_t>(std::ranges::mismatch(before, ids).in1 - before.begin());
    counts.push_back(std::max(same, counts.empty() ? 0 : counts.back()));
  }
  return counts;
}

}  // namespace troupe::stages
