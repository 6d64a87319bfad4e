#pragma once

#include <cstdint>

#include "stages/corpus/text/documents.h"

namespace troupe::stages {

/// How many rows microbatches have.
struct RowSizes {
  /// The most, for which all memory is sized. A partition of packed samples never needs more
  /// (SamplePartition).
  std::int64_t capacity = 0;
  /// Packed, every number of rows is a multiple of it; 0: all microbatches have `capacity` rows.
  std::int64_t step = 0;
};

/// The rows of microbatches of `tokens` = micro * seq_len tokens at most, a multiple of `shards`,
/// which divide them. Products are prepared for sixteen numbers of rows: so few that this takes
/// little time, so many that little is computed in vain.
inline RowSizes row_sizes(Documents documents, std::int64_t tokens, int shards) {
  if (documents != Documents::packed) return {.capacity = tokens, .step = 0};
  constexpr std::int64_t kSizes = 16;
  const auto up = [](std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; };
  const std::int64_t step = up((tokens + kSizes - 1) / kSizes, shards);
  return {.capacity = up(tokens, step), .step = step};
}

/// The rows of microbatches of several lanes (FeedSpec::lanes), each of which may have as many as
/// it has in a microbatch of its own.
inline RowSizes row_sizes(Documents documents, std::int64_t tokens, int shards, int lanes) {
  const RowSizes of_lane = row_sizes(documents, tokens / lanes, shards);
  return {.capacity = lanes * of_lane.capacity, .step = lanes * of_lane.step};
}

}  // namespace troupe::stages
