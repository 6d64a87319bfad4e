#pragma once

#include <cstddef>

#include "tensor/device.h"

namespace troupe::tensor {

struct CachedAttentionShape {
  std::int64_t rows = 0;       ///< T, the most new tokens of a call
  std::int64_t sequences = 0;  ///< B that a cache has room for
  std::int64_t capacity = 0;   ///< N, tokens of each sequence that it has room for
  std::int64_t heads = 0;      ///< H
  std::int64_t kv_heads = 0;   ///< K, divides H; each serves H/K consecutive query heads
  std::int64_t head_dim = 0;   ///< D
  DType dtype = DType::f32;
};
/// Throws Error for a shape that has no meaning.
void check(const CachedAttentionShape& shape);

/// The new tokens of a call, by row, at most T of them.
struct CachedTokens {
  Tensor sequences;  ///< [T] int32: below B; -1: no token, the row's result is zeros
  Tensor positions;  ///< [T] int32: its place in the sequence, below N
  /// [T, D/2] float32: cosines and sines of the angles that a row's pairs of queries and of keys
  /// turn (rotate-half, arXiv 2104.09864). Empty: nothing is rotated.
  Tensor cos, sin;
};
/// Asserts that `tokens` are so many as the shape allows.
void check(const CachedAttentionShape& shape, const CachedTokens& tokens);

/// Grouped-query attention of new tokens over the tokens of their sequences so far, with scale
/// 1/sqrt(D): a forward without a backward, for inference. Keys and values of earlier tokens lie in
/// a cache, one for each layer; one object serves all layers. A whole prompt, a piece of one and
/// single tokens of many sequences are all rows of a call, in any mixture. Rows of one sequence
/// that follow each other and their positions are computed together.
///
/// A row's result does not depend on the rows of other sequences, bit for bit. Neither does it
/// depend on what lies in the cache beyond the row's position, so a sequence is forgotten by
/// beginning another one at position 0.
class CachedAttention {
 public:
  virtual ~CachedAttention() = default;
  /// Elements (of dtype) of the cache of one layer: B sequences of N keys and values in a layout of
  /// the device's own.
  virtual std::int64_t cache_elements() const = 0;
  /// Memory that calls work in, on a 256-byte boundary, given once, before the first call. Nothing
  /// in it outlasts a call.
  virtual std::size_t scratch_bytes() const = 0;
  virtual void set_scratch(void* scratch) = 0;
  /// qkv[T, (H + 2K)*D]: columns q heads, k heads, v heads. Puts the keys, rotated, and the values
  /// of all rows into the cache, then fills out[T, H*D]: each row sees its sequence's positions up
  /// to its own, all of which this call or an earlier one has put there.
  virtual void forward(Stream& stream, const Tensor& qkv, const CachedTokens& tokens,
                       const Tensor& cache, const Tensor& out) = 0;
};

}  // namespace troupe::tensor
