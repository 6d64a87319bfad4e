#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/attention/mma_tile.h"
#include "tensor/cuda/kernels/grid/packs.h"

// Matrix products of the attention kernels. Each warp of a block computes 16 rows of a product,
// whose elements lie in registers as mma_tile.h says for C: c[i][j] of lane L
// is the element of row L / 4 + j / 2 * 8 and column 8 i + L % 4 * 2 + j % 2. A factor that is not
// in registers lies in shared memory, in rows of `width` elements padded by 16 bytes, so that eight
// rows lie in different banks. bfloat16 factors are multiplied by the tensor cores; float32 ones by
// fused multiply-adds, each lane computing its own elements of the same layout.

namespace troupe::tensor::cuda {

inline constexpr int kWarpRows = 16;

/// How a kernel divides its work: a block computes `rows` rows of a tensor and goes through tiles
/// of `columns` rows of others, which are the columns of its products.
template <int rows_, int columns_>
struct Tiling {
  static constexpr int rows = rows_, columns = columns_;
  static constexpr int threads = rows / kWarpRows * 32;
};

/// Elements from a row of a tile to the next.
template <typename T, int width>
inline constexpr int kTileStride = width + kPack<T>;
/// Floats from a row of kept probabilities to the next, see multiply_kept().
template <int columns>
inline constexpr int kKeptStride = columns + 4;

/// Where a lane's elements are in the 16 rows of its warp.
struct Lane {
  int number = static_cast<int>(threadIdx.x) % 32;
  int warp_row = static_cast<int>(threadIdx.x) / 32 * kWarpRows;  // in the tile

  __device__ __forceinline__ int row(int j) const { return number / 4 + j / 2 * 8; }
  __device__ __forceinline__ int column(int i, int j) const {
    return 8 * i + number % 4 * 2 + j % 2;
  }
};

template <int n>
__device__ __forceinline__ void clear(float (&c)[n][4]) {
#pragma unroll
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) c[i][j] = 0;
  }
}

/// Rows of elements in global memory: row r begins at data + r * stride.
template <typename T>
struct Rows {
  T* data;
  std::int64_t stride;
  int count;     // rows that exist
  int columns;   // elements of each
  bool aligned;  // whether each row is a multiple of 16 bytes, on such a boundary
};

/// tile[rows, width] = from, and zeros where `from` has nothing. By all `threads` threads of the
/// block.
template <int rows, int width, int threads, typename T>
__device__ __forceinline__ void load_tile(const Rows<const T>& from, T* tile) {
  constexpr int kStride = kTileStride<T, width>;
  if (from.aligned) {
    constexpr int kPacks = width / kPack<T>;
#pragma unroll 4
    for (int i = 0; i < rows * kPacks / threads; ++i) {
      const int pack = i * threads + static_cast<int>(threadIdx.x);
      const int r = pack / kPacks, column = pack % kPacks * kPack<T>;
      RawPack<T, kPack<T>> raw{};
      if (r < from.count && column < from.columns) {
        raw = load_raw<kPack<T>>(from.data + r * from.stride + column);
      }
      store_raw(raw, tile + r * kStride + column);
    }
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += threads) {
      const int r = i / width, column = i % width;
      const bool exists = r < from.count && column < from.columns;
      tile[r * kStride + column] =
          exists ? from.data[r * from.stride + column] : from_float32<T>(0.0f);
    }
  }
}

/// The pairs of columns of a float32 tile that a product takes at once.
inline constexpr int kDepthStep = 4;

/// c += the warp's rows of a[16, depth] x b[8 n, depth]^T, both in shared memory.
template <int depth, int n>
__device__ __forceinline__ void multiply_rows(const float* a, const float* b, float (&c)[n][4]) {
  constexpr int kStride = kTileStride<float, depth>;
  const Lane lane;
  const float* row0 = a + lane.row(0) * kStride;
  const float* row1 = a + lane.row(2) * kStride;
  const float* column = b + lane.column(0, 0) * kStride;
#pragma unroll 1
  for (int k = 0; k < depth; k += kDepthStep) {
    const Pack<kDepthStep> x0 = load<kDepthStep>(row0 + k), x1 = load<kDepthStep>(row1 + k);
#pragma unroll
    for (int i = 0; i < n; ++i) {
      const Pack<kDepthStep> y0 = load<kDepthStep>(column + 8 * i * kStride + k);
      const Pack<kDepthStep> y1 = load<kDepthStep>(column + (8 * i + 1) * kStride + k);
#pragma unroll
      for (int j = 0; j < kDepthStep; ++j) {
        c[i][0] += x0[j] * y0[j];
        c[i][1] += x0[j] * y1[j];
        c[i][2] += x1[j] * y0[j];
        c[i][3] += x1[j] * y1[j];
      }
    }
  }
}

/// c += p[16, 8 depth] x b[8 depth, 8 n]: p in registers, rounded to b's dtype, b in shared memory.
/// float32 needs kWarpRows * kKeptStride<8 depth> floats of shared memory of the warp's own,
/// `kept`.
template <int n, int depth>
__device__ __forceinline__ void multiply_kept(const float (&p)[depth][4], const float* b,
                                              float* kept, float (&c)[n][4]) {
  constexpr int kKept = kKeptStride<8 * depth>, kStride = kTileStride<float, 8 * n>;
  const Lane lane;
  __syncwarp();  // the lanes have read what was kept before
#pragma unroll
  for (int i = 0; i < depth; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) kept[lane.row(j) * kKept + lane.column(i, j)] = p[i][j];
  }
  __syncwarp();
  const float* row0 = kept + lane.row(0) * kKept;
  const float* row1 = kept + lane.row(2) * kKept;
  const float* column = b + lane.column(0, 0);
  constexpr int kStep = n > 16 ? kDepthStep / 2 : kDepthStep;  // so that no register spills
#pragma unroll 1
  for (int k = 0; k < 8 * depth; k += kStep) {
    const Pack<kStep> x0 = load<kStep>(row0 + k), x1 = load<kStep>(row1 + k);
#pragma unroll
    for (int j = 0; j < kStep; ++j) {
#pragma unroll
      for (int i = 0; i < n; ++i) {
        const float2 y = *reinterpret_cast<const float2*>(column + (k + j) * kStride + 8 * i);
        c[i][0] += x0[j] * y.x;
        c[i][1] += x0[j] * y.y;
        c[i][2] += x1[j] * y.x;
        c[i][3] += x1[j] * y.y;
      }
    }
  }
}

/// c[first + i] += a x the i-th two tiles of B that load_matrices() reads from at[i].
template <bool transposed, int n>
__device__ __forceinline__ void multiply_tiles(const std::uint32_t (&a)[4],
                                               const __nv_bfloat16* const (&at)[n / 2],
                                               float (*c)[4]) {
  std::uint32_t m[n / 2][4], b[n][2];
  load_matrices<transposed>(at, m);
#pragma unroll
  for (int i = 0; i < n; ++i) {
    b[i][0] = m[i / 2][i % 2 * 2];
    b[i][1] = m[i / 2][i % 2 * 2 + 1];
  }
  mma_tile(a, b, c);
}

template <int depth, int n>
__device__ __forceinline__ void multiply_rows(const __nv_bfloat16* a, const __nv_bfloat16* b,
                                              float (&c)[n][4]) {
  constexpr int kStride = kTileStride<__nv_bfloat16, depth>;
  constexpr int kTiles = n < kMostTiles ? n : kMostTiles;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  a += lane % 16 * kStride + lane / 16 * 8;
  b += (lane % 8 + lane / 16 * 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll 4
  for (int k = 0; k < depth; k += 16) {
    std::uint32_t a_matrices[1][4];
    const __nv_bfloat16* const a_at[1] = {a + k};
    load_matrices<false>(a_at, a_matrices);
#pragma unroll
    for (int first = 0; first < n; first += kTiles) {
      const __nv_bfloat16* at[kTiles / 2];
#pragma unroll
      for (int i = 0; i < kTiles / 2; ++i) at[i] = b + (first + 2 * i) * 8 * kStride + k;
      multiply_tiles<false, kTiles>(a_matrices[0], at, c + first);
    }
  }
}

template <int n, int depth>
__device__ __forceinline__ void multiply_kept(const float (&p)[depth][4], const __nv_bfloat16* b,
                                              float*, float (&c)[n][4]) {
  constexpr int kStride = kTileStride<__nv_bfloat16, 8 * n>;
  constexpr int kTiles = n < kMostTiles ? n : kMostTiles;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  b += lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int k = 0; k < depth; k += 2) {  // C's registers are A's, two tiles of C for one of A
    const std::uint32_t a[4] = {bfloat16_pair(p[k][0], p[k][1]), bfloat16_pair(p[k][2], p[k][3]),
                                bfloat16_pair(p[k + 1][0], p[k + 1][1]),
                                bfloat16_pair(p[k + 1][2], p[k + 1][3])};
#pragma unroll
    for (int first = 0; first < n; first += kTiles) {
      const __nv_bfloat16* at[kTiles / 2];
#pragma unroll
      for (int i = 0; i < kTiles / 2; ++i) at[i] = b + 8 * k * kStride + (first + 2 * i) * 8;
      multiply_tiles<true, kTiles>(a, at, c + first);
    }
  }
}

}  // namespace troupe::tensor::cuda
