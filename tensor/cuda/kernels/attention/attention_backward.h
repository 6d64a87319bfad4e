#pragma once

#include <type_traits>

#include "tensor/cuda/kernels/attention/attention_scores.h"

// FlashAttention-2 (arXiv 2307.08691), algorithm 2, as two kernels, so that nothing is added to
// memory that other blocks add to: one goes through queries and computes gradients of keys and
// values, the other goes through keys and computes gradients of queries. Both compute the
// probabilities again from lse. With p' the probabilities after dropout, whose gradient is dp', and
// delta a row's sum of dout out, which a kernel of its own computes before:
// dv = p'^T dout, ds = p (dp - delta), dk = ds^T q, dq = ds k.

namespace troupe::tensor::cuda {

/// Shared memory of a block: it keeps rows of two tensors and goes through tiles of two others.
template <typename T, int width, typename Tiling_>
struct BackwardMemory {
  using Tiles = Tiling_;
  static constexpr int kStride = kTileStride<T, width>;
  static constexpr int kElements = 2 * (Tiles::rows + Tiles::columns) * kStride;
  static constexpr int kKept =
      sizeof(T) == sizeof(float) ? Tiles::rows * kKeptStride<Tiles::columns> : 0;
  static constexpr std::size_t kTiles = kElements * sizeof(T) + kKept * sizeof(float);
  static constexpr std::size_t kStaging = kStagingBytes<Tiles::rows, width>;
  static constexpr std::size_t kBytes = kTiles > kStaging ? kTiles : kStaging;

  T* rows = dynamic_shared<T>();
  T* other_rows = rows + Tiles::rows * kStride;
  T* tile = other_rows + Tiles::rows * kStride;
  T* other_tile = tile + Tiles::columns * kStride;
  float* kept = reinterpret_cast<float*>(rows + kElements);
};

/// What every GPU has the memory for.
template <typename T, int width>
using SmallBackward =
    BackwardMemory<T, width,
                   std::conditional_t<(width * sizeof(T) > 512), Tiling<32, 8>, Tiling<64, 16>>>;

__device__ __forceinline__ float finite_lse(float lse) {
  return lse == minus_infinity() ? 0.0f : lse;  // e^(-inf - 0) is 0, not NaN
}

template <typename T>
__device__ __forceinline__ Rows<T> output_rows(const AttentionArguments& x, T* data,
                                               HeadPlace place, int first, bool aligned) {
  return token_rows(x, data, place, first, std::int64_t{x.heads} * x.head_dim,
                    std::int64_t{place.head} * x.head_dim, aligned);
}

/// Rows of a head of dqkv, whose columns are those of H + 2K heads.
template <typename T>
__device__ __forceinline__ Rows<T> gradient_rows(const AttentionArguments& x,
                                                 const HeadPlace& place, int head, int first,
                                                 bool aligned) {
  return token_rows(x, static_cast<T*>(x.dqkv), place, first,
                    std::int64_t{x.heads + 2 * x.kv_heads} * x.head_dim,
                    std::int64_t{head} * x.head_dim, aligned);
}

__device__ __forceinline__ RowRotation rotation_from(const AttentionArguments& x,
                                                     const HeadPlace& place, int first) {
  if (!x.cos) return {};
  const int half = x.rotary_dim / 2;
  const std::int64_t angle = std::int64_t{place.begin + first} * half;
  return {x.cos + angle, x.sin + angle, half};
}

/// Whether rows are multiples of 16 bytes, on such a boundary.
struct AlignedRows {
  bool out = false;      // dout and out
  bool rotated = false;  // dqkv's heads, and what of them is rotated, in halves
  bool values = false;   // dqkv's heads
};

/// p = e^(score - lse) of the products of the warp's rows with the tile's columns. lse(i, j) is
/// that of the query of p[i][j].
template <typename T, int width, bool limited, bool transposed, int rows_, int n, typename Lse>
__device__ __forceinline__ void compute_probabilities(const AttentionArguments& x,
                                                      const ScoreTile<transposed, rows_>& tile,
                                                      const T* rows, const T* columns,
                                                      const Lse& lse, float (&p)[n][4]) {
  clear(p);
  multiply_rows<width>(rows, columns, p);
  finish_scores<T, limited>(x, tile, p);
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) p[i][j] = exponential<T>(p[i][j] - lse(i, j));
  }
}

/// 1 - (s / c)^2, by which the gradient of a product is less whose score s was capped. The score is
/// taken back from its probability, which costs no register: log p + lse.
__device__ __forceinline__ float cap_slope(float cap, float probability, float lse) {
  if (probability == 0) return 0;  // as it multiplies
  const float part = (logf(probability) + lse) / cap;
  return 1.0f - part * part;
}

/// ds = p (dp - delta) scale, where dp' is the product of the warp's rows with the tile's columns,
/// one of dout and the other of values. lse(i, j) and delta(i, j) are those of the query of
/// ds[i][j].
template <typename T, int width, bool limited, int n, typename Lse, typename Delta>
__device__ __forceinline__ void compute_score_gradients(const AttentionArguments& x,
                                                        std::uint32_t kept_bits, const T* rows,
                                                        const T* columns, const Lse& lse,
                                                        const Delta& delta, const float (&p)[n][4],
                                                        float (&ds)[n][4]) {
  clear(ds);
  multiply_rows<width>(rows, columns, ds);
  if (x.dropout.threshold) drop(kept_bits, x.dropout.scale, ds);
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) ds[i][j] = p[i][j] * x.scale * (ds[i][j] - delta(i, j));
  }
  if constexpr (limited) {
    if (x.cap == 0) return;
#pragma unroll
    for (int i = 0; i < n; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) ds[i][j] *= cap_slope(x.cap, p[i][j], lse(i, j));
    }
  }
}

template <typename T>
AlignedRows aligned_rows(const AttentionArguments& x) {
  return {.out = heads_are_aligned<T>(x, x.dout, false) && heads_are_aligned<T>(x, x.out, false),
          .rotated = heads_are_aligned<T>(x, x.dqkv, x.cos != nullptr),
          .values = heads_are_aligned<T>(x, x.dqkv, false)};
}

}  // namespace troupe::tensor::cuda
