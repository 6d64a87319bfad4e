#pragma once

#include <cstdint>

#include "stages/corpus/tokens/token_file.h"

namespace troupe::stages {

/// The first masked span that ends behind a token; num_masked() if there is none.
std::int64_t first_masked_after(const TokenFile& tokens, std::int64_t token);

/// Calls use(part) for each part of a span of tokens that is masked, in order. Allocates nothing.
template <typename Use>
void for_each_masked(const TokenFile& tokens, const TokenSpan& span, const Use& use) {
  for (std::int64_t i = first_masked_after(tokens, span.begin); i < tokens.num_masked(); ++i) {
    const TokenSpan masked = tokens.masked(i);
    if (masked.begin >= span.end) return;
    use(TokenSpan{.begin = masked.begin < span.begin ? span.begin : masked.begin,
                  .end = masked.end < span.end ? masked.end : span.end});
  }
}

/// How many tokens of a span are masked.
std::int64_t count_masked(const TokenFile& tokens, const TokenSpan& span);

}  // namespace troupe::stages
