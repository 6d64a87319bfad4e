#include "stages/tokenizers/token_bounds.h"

#include <algorithm>

namespace troupe::stages {

std::vector<std::size_t> tokens_before(const Tokenizer& tokenizer, std::string_view text,
                                       std::span<const std::int32_t> ids,
                                       std::span<const std::size_t> bytes) {
  /// A byte at which tokens end, and how many there are before it.
  struct Cut {
    std::size_t byte = 0, tokens = 0;
  };
  Cut last;
  std::vector<std::size_t> counts;
  for (const std::size_t byte : bytes) {
    std::size_t count = counts.empty() ? 0 : counts.back();
    // From the last cut on, the text mostly has by itself the ids that it has here; if it has not,
    // it is encoded from its begin on.
    for (const Cut& cut : {last, Cut{}}) {
      const auto piece = tokenizer.encode(text.substr(cut.byte, byte - cut.byte),
                                          cut.byte == 0 ? Place::start : Place::after_newline);
      const auto same = static_cast<std::size_t>(
          std::ranges::mismatch(piece, ids.subspan(cut.tokens)).in1 - piece.begin());
      count = std::max(count, cut.tokens + same);
      if (same == piece.size()) last = {.byte = byte, .tokens = cut.tokens + same};
      if (same == piece.size() || cut.byte == 0) break;
    }
    counts.push_back(count);
  }
  return counts;
}

}  // namespace troupe::stages
