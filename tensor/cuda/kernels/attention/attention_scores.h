#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/attention/attention_kernels.h"
#include "tensor/cuda/kernels/attention/attention_place.h"
#include "tensor/cuda/kernels/attention/attention_tile.h"
#include "tensor/cuda/kernels/grid/philox.h"

// What the attention kernels do to a tile of scores in registers.

namespace troupe::tensor::cuda {

/// e^x with T's accuracy.
template <typename T>
__device__ __forceinline__ float exponential(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return expf(x);
  } else {
    return __expf(x);
  }
}

/// tanh(x) with T's accuracy.
template <typename T>
__device__ __forceinline__ float hyperbolic_tangent(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return tanhf(x);
  } else {
    return 1.0f - __fdividef(2.0f, 1.0f + __expf(2.0f * x));
  }
}

__device__ __forceinline__ float minus_infinity() {
  return __uint_as_float(0xff800000u);
}

/// A tile of scores of one head: `rows` rows from `first_row`, columns from `first_column`. Rows
/// are queries and columns keys, or the other way round if transposed.
template <bool transposed, int rows>
struct ScoreTile {
  HeadPlace place;
  int first_row, first_column;

  __device__ __forceinline__ int query(const Lane& lane, int i, int j) const {
    return transposed ? first_column + lane.column(i, j) : first_row + lane.warp_row + lane.row(j);
  }
  __device__ __forceinline__ int key(const Lane& lane, int i, int j) const {
    return transposed ? first_row + lane.warp_row + lane.row(j) : first_column + lane.column(i, j);
  }
};

/// c tanh(s / c) of each score.
template <typename T, int n>
__device__ __forceinline__ void cap_scores(float cap, float (&s)[n][4]) {
  const float inverse = 1.0f / cap;
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) s[i][j] = cap * hyperbolic_tangent<T>(s[i][j] * inverse);
  }
}

/// Turns products of queries and keys into scores: scaled, with the cap or the mask, and -inf where
/// a query does not see the key or one of them does not exist. `limited` says whether there may be
/// a window or a cap.
template <typename T, bool limited, bool transposed, int rows, int n>
__device__ __forceinline__ void finish_scores(const AttentionArguments& x,
                                              const ScoreTile<transposed, rows>& tile,
                                              float (&s)[n][4]) {
  const Lane lane;
  const int rows_end = tile.first_row + rows, columns_end = tile.first_column + 8 * n;
  const int last_key = (transposed ? rows_end : columns_end) - 1;
  const int first_query = transposed ? tile.first_column : tile.first_row;
  const int length = tile.place.length;
  bool all_seen =
      rows_end <= length && columns_end <= length && !(x.causal && last_key > first_query);
  if constexpr (limited) {
    const int first_key = transposed ? tile.first_row : tile.first_column;
    const int last_query = (transposed ? columns_end : rows_end) - 1;
    if (x.window > 0 && last_query - first_key >= x.window) all_seen = false;
  }
  const float* mask = x.mask ? x.mask + tile.place.batch * x.mask_batch_stride : nullptr;
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) s[i][j] *= x.scale;
  }
  if constexpr (limited) {
    if (x.cap > 0) cap_scores<T>(x.cap, s);
  }
  if (all_seen && !mask) return;
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int query = tile.query(lane, i, j), key = tile.key(lane, i, j);
      bool seen = query < length && key < length && !(x.causal && key > query);
      if constexpr (limited) seen = seen && !(x.window > 0 && query - key >= x.window);
      if (!seen) {
        s[i][j] = minus_infinity();
      } else if (mask) {
        s[i][j] += mask[query * x.mask_query_stride + key];
      }
    }
  }
}

/// The first tile of `keys` keys that a block looks at whose first query is `query`, by its first
/// key.
template <bool limited, int keys>
__device__ __forceinline__ int first_tile(const AttentionArguments& x, int query) {
  if constexpr (limited) {
    if (x.window > 0 && query >= x.window) return (query - x.window + 1) / keys * keys;
  }
  return 0;
}

/// Bit 4 i + j says whether the lane's probability c[i][j] is kept.
template <int n, bool transposed, int rows>
__device__ __forceinline__ std::uint32_t kept_probabilities(
    const AttentionArguments& x, const ScoreTile<transposed, rows>& tile) {
  static_assert(4 * n <= 32);
  const Lane lane;
  const std::uint64_t first =
      x.dropout.first + static_cast<std::uint64_t>(tile.place.head) * x.dropout.head_stride;
  std::uint32_t kept = 0;
#pragma unroll 1
  for (int e = 0; e < 4 * n; ++e) {
    const int i = e / 4, j = e % 4;
    std::int64_t token = tile.place.token(x, tile.query(lane, i, j));
    // In 32 bits and here, where fewest registers are in use.
    if (x.dropout.run > 0) token += static_cast<int>(token) / x.dropout.run * x.dropout.gap;
    const std::uint64_t index = first + static_cast<std::uint64_t>(token) * x.dropout.token_stride +
                                static_cast<std::uint64_t>(tile.key(lane, i, j));
    const std::uint32_t word = philox_word(x.dropout.key, index);
    kept |= std::uint32_t{word >= x.dropout.threshold} << e;
  }
  return kept;
}

/// Multiplies what is kept by `scale` and clears the rest.
template <int n>
__device__ __forceinline__ void drop(std::uint32_t kept, float scale, float (&c)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) c[i][j] = kept >> (4 * i + j) & 1 ? c[i][j] * scale : 0.0f;
  }
}

/// Tables of the rotation of a tile's rows, [rows, half], by which the first 2 half elements of
/// each turn; null: none.
struct RowRotation {
  const float* cos = nullptr;
  const float* sin = nullptr;
  int half = 0;
};

/// Writes a warp's rows from float32 shared memory, m elements at once: rotated back if asked.
template <int width, int m, typename T>
__device__ __forceinline__ void write_staged(const float* staged, const RowRotation& rotation,
                                             const Rows<T>& to, const Lane& lane) {
  constexpr int kStride = kTileStride<float, width>;
  const int half = rotation.half, packs = (to.columns - half) / m;  // a pair is one pack
  for (int p = lane.number; p < kWarpRows * packs; p += 32) {
    const int r = p / packs, lower = p % packs * m;
    if (lane.warp_row + r >= to.count) continue;
    const bool turns = lower < half;
    const int column = turns ? lower : lower + half;
    const float* from = staged + r * kStride + column;
    T* target = to.data + (lane.warp_row + r) * to.stride + column;
    Pack<m> first = load<m>(from);
    if (turns) {
      const std::int64_t angle = std::int64_t{lane.warp_row + r} * half + column;
      const Pack<m> cos = load<m>(rotation.cos + angle), sin = load<m>(rotation.sin + angle);
      Pack<m> second = load<m>(from + half);
#pragma unroll
      for (int i = 0; i < m; ++i) {
        const float a = first[i], b = second[i];
        first[i] = a * cos[i] + b * sin[i];
        second[i] = b * cos[i] - a * sin[i];
      }
      store(second, target + half);
    }
    store(first, target);
  }
}

/// Writes a block's rows whose elements are in registers, through `staging`, which takes the place
/// of the tiles: all of the block's threads are done with them, and use it no more afterwards.
template <int width, typename T>
__device__ __forceinline__ void write_rows(const float (&c)[width / 8][4], float* staging,
                                           const RowRotation& rotation, const Rows<T>& to) {
  constexpr int kStride = kTileStride<float, width>;
  const Lane lane;
  float* staged = staging + lane.warp_row * kStride;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < width / 8; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) staged[lane.row(j) * kStride + lane.column(i, j)] = c[i][j];
  }
  __syncwarp();
  if (to.aligned) {
    write_staged<width, kPack<T>>(staged, rotation, to, lane);
  } else {
    write_staged<width, 1>(staged, rotation, to, lane);
  }
}

/// Bytes that write_rows() of a block of so many rows stages.
template <int rows, int width>
inline constexpr std::size_t kStagingBytes = sizeof(float) * rows* kTileStride<float, width>;

/// Whether rows of heads of D elements, and the halves that are rotated together, are multiples of
/// 16 bytes.
template <typename T>
bool heads_are_aligned(const AttentionArguments& x, const void* data, bool rotated) {
  return rows_are_aligned(x.head_dim, kPack<T>, {data}) &&
         (!rotated || x.rotary_dim / 2 % kPack<T> == 0);
}

}  // namespace troupe::tensor::cuda
