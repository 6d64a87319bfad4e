#pragma once

#include <cstdint>

#include "tensor/cpu/attention/attention_heads.h"
#include "tensor/cpu/attention/query_block.h"

namespace troupe::tensor {

/// The keys and values of one sequence and one key-value head in a cache, both of `dtype`. Keys lie
/// in tiles of 16 positions, [tiles, D, 16], so that the scores of a tile are sums of vectors and
/// not sums within one; values are [positions, D].
struct CachedHead {
  static constexpr std::int64_t kTile = 16;

  void* keys = nullptr;
  void* values = nullptr;
  DType dtype = DType::f32;
  std::int64_t head_dim = 0;

  static std::int64_t tiles(std::int64_t positions) { return (positions + kTile - 1) / kTile; }
};

/// Puts keys and values of `count` positions, of the cache's dtype, into it from position `first`
/// on.
void store_in_cache(const CachedHead& head, std::int64_t first, std::int64_t count,
                    const HeadRows& keys, const HeadRows& values);

// A row of a block is computed by the same operations in the same order whatever other rows there
// are, so that its bits do not depend on them.

/// scores[rows, columns] = q[rows, D] x the keys of the block's columns, which are whole tiles and
/// begin with one.
/// What lies beyond the positions of the cache that were stored is of no meaning.
void cached_scores(const QueryBlock& block, const CachedHead& head, const float* q, float* scores);

/// sums[rows, D] = p[rows, columns] x the values of the positions that each row sees.
void cached_values(const QueryBlock& block, const CachedHead& head, const float* p, float* sums);

}  // namespace troupe::tensor
