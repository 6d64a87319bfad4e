#pragma once

// How the columns of a row are divided among threads. A pack is N columns that one thread takes at
// a time. Where rows begin at multiples of 16 bytes ("aligned"), a pack is N columns side by side,
// read and written 16 bytes at once. Elsewhere the packs of 32 threads interleave, so that a warp
// still touches neighbouring elements: pack p has the columns 32 N (p / 32) + 32 i + p % 32.
//
// Thread t of a row's n threads (n a multiple of 32) takes the packs t, t + n, t + 2 n, ...: the
// order of every sum follows from the number of columns alone.

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "tensor/cuda/kernels/packs.h"

namespace troupe::tensor::cuda {

template <int N, bool kAligned>
struct Packs {
  template <typename Index>
  static __host__ __device__ __forceinline__ Index count(Index columns) {
    if constexpr (kAligned) return columns / N;
    return (columns + 32 * N - 1) / (32 * N) * 32;
  }
  template <typename Index>
  static __host__ __device__ __forceinline__ Index column(Index pack, int i) {
    if constexpr (kAligned) return pack * N + i;
    return (pack >> 5) * (32 * N) + i * 32 + (pack & 31);
  }
  /// The pack that has a column.
  template <typename Index>
  static __host__ __device__ __forceinline__ Index pack_of(Index column) {
    if constexpr (kAligned) return column / N;
    return column / (32 * N) * 32 + (column & 31);
  }
  /// Whether the pack's i-th column is one of the row's; the pack is below count().
  template <typename Index>
  static __device__ __forceinline__ bool has(Index pack, int i, Index columns) {
    if constexpr (kAligned) return true;
    return column(pack, i) < columns;
  }
};

/// Whether rows of so many columns, in packs of N, may be read and written in vectors from these
/// addresses (null: not used).
inline bool are_aligned(std::int64_t columns, int n, std::initializer_list<const void*> rows) {
  return columns % n == 0 && std::ranges::all_of(rows, [](const void* row) {
           return reinterpret_cast<std::uintptr_t>(row) % 16 == 0;
         });
}

/// A pack as it lies in memory.
template <typename T, int N>
struct RawPack {
  static constexpr int kWords = N * static_cast<int>(sizeof(T)) / 4;
  unsigned words[kWords];
};

__device__ __forceinline__ unsigned bits_of(float x) {
  return __float_as_uint(x);
}
__device__ __forceinline__ unsigned bits_of(__nv_bfloat16 x) {
  return static_cast<__nv_bfloat16_raw>(x).x;
}

/// Where an aligned pack lies. In 64 bits: where nvcc knows an address as a sum with a 32-bit
/// index, it splits a vector's store into one for each word.
template <int N, typename T, typename Index>
__device__ __forceinline__ T* begin_of_pack(T* row, Index pack) {
  return row + static_cast<std::int64_t>(pack) * N;
}

/// The pack of a row. Columns past the row's end are zero; in aligned rows the pack is below
/// count().
template <bool kAligned, int N, typename T, typename Index>
__device__ __forceinline__ RawPack<T, N> load_raw(const T* row, Index pack, Index columns) {
  RawPack<T, N> raw;
  constexpr int kWords = RawPack<T, N>::kWords;
  if constexpr (!kAligned) {
    constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
#pragma unroll
    for (int word = 0; word < kWords; ++word) raw.words[word] = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Index c = Packs<N, false>::column(pack, i);
      if (c < columns) raw.words[i / kPerWord] |= bits_of(row[c]) << (i % kPerWord * 16);
    }
  } else if constexpr (kWords == 2) {
    const uint2 two = *reinterpret_cast<const uint2*>(begin_of_pack<N>(row, pack));
    raw.words[0] = two.x, raw.words[1] = two.y;
  } else {
    const auto* vectors = reinterpret_cast<const uint4*>(begin_of_pack<N>(row, pack));
#pragma unroll
    for (int i = 0; i < kWords / 4; ++i) {
      const uint4 four = vectors[i];
      raw.words[4 * i] = four.x, raw.words[4 * i + 1] = four.y;
      raw.words[4 * i + 2] = four.z, raw.words[4 * i + 3] = four.w;
    }
  }
  return raw;
}

template <int N>
__device__ __forceinline__ void widen(const RawPack<float, N>& raw, float (&v)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = __uint_as_float(raw.words[i]);
}
template <int N>
__device__ __forceinline__ void widen(const RawPack<__nv_bfloat16, N>& raw, float (&v)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    v[i] = __uint_as_float(raw.words[i / 2] << 16);
    v[i + 1] = __uint_as_float(raw.words[i / 2] & 0xffff0000u);
  }
}

template <bool kAligned, int N, typename T, typename Index>
__device__ __forceinline__ void load_pack(const T* row, Index pack, Index columns, float (&v)[N]) {
  widen(load_raw<kAligned, N>(row, pack, columns), v);
}

__device__ __forceinline__ unsigned narrow_pair(float low, float high) {
  const __nv_bfloat162_raw pair = __floats2bfloat162_rn(low, high);
  return static_cast<unsigned>(pair.x) | static_cast<unsigned>(pair.y) << 16;
}

/// Writes four or eight values, rounded to nearest even, at an aligned place.
template <int N>
__device__ __forceinline__ void store_vector(const float (&v)[N], float* to) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    *reinterpret_cast<float4*>(to + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
  }
}
__device__ __forceinline__ void store_vector(const float (&v)[4], __nv_bfloat16* to) {
  *reinterpret_cast<uint2*>(to) = make_uint2(narrow_pair(v[0], v[1]), narrow_pair(v[2], v[3]));
}
__device__ __forceinline__ void store_vector(const float (&v)[8], __nv_bfloat16* to) {
  *reinterpret_cast<uint4*>(to) = make_uint4(narrow_pair(v[0], v[1]), narrow_pair(v[2], v[3]),
                                             narrow_pair(v[4], v[5]), narrow_pair(v[6], v[7]));
}

/// Writes the pack, as far as it lies within the row.
template <bool kAligned, int N, typename T, typename Index>
__device__ __forceinline__ void store_pack(const float (&v)[N], T* row, Index pack, Index columns) {
  if constexpr (kAligned) {
    store_vector(v, begin_of_pack<N>(row, pack));
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Index c = Packs<N, false>::column(pack, i);
      if (c < columns) row[c] = from_float32<T>(v[i]);
    }
  }
}

}  // namespace troupe::tensor::cuda
