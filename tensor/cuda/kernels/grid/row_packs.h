#pragma once

// How the columns of a row are divided among threads. A pack is N columns that one thread takes at
// a time. Where rows are aligned (rows_are_aligned), a pack is N columns side by side, read and
// written 16 bytes at once. Elsewhere the packs of 32 threads interleave, so that a warp still
// touches neighbouring elements: pack p has the columns 32 N (p / 32) + 32 i + p % 32.
//
// Thread t of a row's n threads (n a multiple of 32) takes the packs t, t + n, t + 2 n, ...: the
// order of every sum follows from the number of columns alone.

#include <cstdint>

#include "tensor/cuda/kernels/grid/packs.h"

namespace troupe::tensor::cuda {

/// The packs of a row. A pack's number is below count() wherever one is asked for; Index is a
/// signed integer that holds the row's number of columns.
template <int N, bool kAligned>
struct RowPacks {
  template <typename Index>
  static __host__ __device__ __forceinline__ Index count(Index columns) {
    if constexpr (kAligned) return columns / N;
    return (columns + 32 * N - 1) / (32 * N) * 32;
  }
  /// The pack's i-th column, which may lie past the row's end.
  template <typename Index>
  static __device__ __forceinline__ Index column(Index pack, int i) {
    if constexpr (kAligned) return pack * N + i;
    return (pack >> 5) * (32 * N) + i * 32 + (pack & 31);
  }
  /// Whether the pack's i-th column is one of the row's.
  template <typename Index>
  static __device__ __forceinline__ bool has(Index pack, int i, Index columns) {
    if constexpr (kAligned) return true;
    return column(pack, i) < columns;
  }
  /// The pack that has a column.
  template <typename Index>
  static __device__ __forceinline__ Index pack_of(Index column) {
    if constexpr (kAligned) return column / N;
    return column / (32 * N) * 32 + (column & 31);
  }

  /// The pack of a row. Columns past the row's end are zero.
  template <typename T, typename Index>
  static __device__ __forceinline__ RawPack<T, N> load_raw(const T* row, Index pack,
                                                           Index columns) {
    if constexpr (kAligned) {
      return cuda::load_raw<N>(begin(row, pack));
    } else {
      constexpr int kPerWord = RawPack<T, N>::kPerWord;
      RawPack<T, N> raw{};
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const Index c = column(pack, i);
        if (c < columns) raw.words[i / kPerWord] |= bits_of(row[c]) << (i % kPerWord * 16);
      }
      return raw;
    }
  }
  template <typename T, typename Index>
  static __device__ __forceinline__ Pack<N> load(const T* row, Index pack, Index columns) {
    return widen(load_raw(row, pack, columns));
  }

  /// Writes the pack, rounded to T, as far as it lies within the row.
  template <typename T, typename Index>
  static __device__ __forceinline__ void store(const Pack<N>& values, T* row, Index pack,
                                               Index columns) {
    if constexpr (kAligned) {
      cuda::store(values, begin(row, pack));
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const Index c = column(pack, i);
        if (c < columns) row[c] = from_float32<T>(values[i]);
      }
    }
  }

 private:
  /// Where an aligned pack lies. In 64 bits: where nvcc knows an address as a sum with a 32-bit
  /// index, it splits a vector's store into one for each word.
  template <typename T, typename Index>
  static __device__ __forceinline__ T* begin(T* row, Index pack) {
    return row + static_cast<std::int64_t>(pack) * N;
  }
  static __device__ __forceinline__ unsigned bits_of(float x) {
    return __float_as_uint(x);
  }
  static __device__ __forceinline__ unsigned bits_of(__nv_bfloat16 x) {
    return static_cast<__nv_bfloat16_raw>(x).x;
  }
};

}  // namespace troupe::tensor::cuda
