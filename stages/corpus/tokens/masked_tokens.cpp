#include "stages/corpus/tokens/masked_tokens.h"

#include <algorithm>
#include <functional>
#include <ranges>

namespace troupe::stages {

std::int64_t first_masked_after(const TokenFile& tokens, std::int64_t token) {
  const auto spans = std::views::iota(std::int64_t{0}, tokens.num_masked());
  const auto ends_behind = [&](std::int64_t i) { return tokens.masked(i).end > token; };
  return *std::ranges::partition_point(spans, std::not_fn(ends_behind));
}

std::int64_t count_masked(const TokenFile& tokens, const TokenSpan& span) {
  std::int64_t count = 0;
  for_each_masked(tokens, span, [&](const TokenSpan& part) { count += part.end - part.begin; });
  return count;
}

}  // namespace troupe::stages
