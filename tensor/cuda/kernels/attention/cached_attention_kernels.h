#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/values/dtype.h"

// Shape letters: T rows, B sequences, N positions of each, H heads, K key-value heads, D head size,
// W elements of a row of the cache.

namespace troupe::tensor::cuda {

/// Pointers of type void are to elements of one dtype.
struct CachedAttentionArguments {
  int rows = 0, sequences = 0, capacity = 0, heads = 0, kv_heads = 0, head_dim = 0;
  int row_width = 0;  ///< W: D rounded up so that a row is a multiple of 16 bytes
  int window = 0;     ///< as of AttentionArguments, and so is the cap
  float scale = 1;    ///< of the products of queries and keys
  float cap = 0;
  int rotary_dim = 0;                           ///< R, elements of a head that turn
  const std::int32_t* row_sequences = nullptr;  ///< [T]  -1: no token
  const std::int32_t* row_positions = nullptr;  ///< [T]
  const float *cos = nullptr, *sin = nullptr;   ///< [T, R/2]  null: nothing is rotated
  const void* qkv = nullptr;                    ///< [T, (H + 2K)*D]
  void* cache = nullptr;   ///< keys [B, K, N, W], then values; aligned to 16 bytes
  void* out = nullptr;     ///< [T, H*D]
  float* parts = nullptr;  ///< cached_attention_scratch() bytes
};

/// Puts the rows' keys, rotated, and values into the cache, with zeros from column D on.
void launch_store_in_cache(DType dtype, const CachedAttentionArguments& x, cudaStream_t stream);
/// Bytes of device memory in which any call with at most x.rows rows works.
std::size_t cached_attention_scratch(const CachedAttentionArguments& x);
/// Fills out from qkv and the cache. D is at most kMostHeadDim. A row has the same bits in every
/// call.
void launch_cached_attention(DType dtype, const CachedAttentionArguments& x, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
