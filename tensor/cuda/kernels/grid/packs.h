#pragma once

#include <cstdint>
#include <initializer_list>

#include "tensor/cuda/kernels/grid/grid.h"
#include "tensor/values/dtype.h"

// Elements of memory, float32 or bfloat16 (__nv_bfloat16), as the float32 numbers that kernels
// compute with: one at a time, or several by loads and stores of up to 16 bytes.

namespace troupe::tensor::cuda {

/// Elements of T in 16 bytes.
template <typename T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

/// Consecutive elements as float32.
template <int n>
struct Pack {
  float values[n];

  __device__ __forceinline__ float& operator[](int i) { return values[i]; }
  __device__ __forceinline__ const float& operator[](int i) const { return values[i]; }
};

/// Consecutive elements as they lie in memory. What is loaded ahead stays in this form, because
/// bfloat16 takes half the registers. By its alignment, a copy is loads or stores of 16 bytes, or
/// one of all bytes if they are fewer.
template <typename T, int n>
struct alignas(n < kPack<T> ? n * sizeof(T) : 16) RawPack {
  static constexpr int kPerWord = 4 / static_cast<int>(sizeof(T));
  static_assert(n % (2 * kPerWord) == 0);

  unsigned words[n / kPerWord];
};

__device__ __forceinline__ float to_float32(float x) {
  return x;
}
__device__ __forceinline__ float to_float32(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

/// x rounded to T, to nearest even.
template <typename T>
__device__ __forceinline__ T from_float32(float x) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    return __float2bfloat16_rn(x);
  }
}

/// Two numbers rounded to bfloat16, in the order of memory.
__device__ __forceinline__ unsigned bfloat16_pair(float first, float second) {
  const __nv_bfloat162_raw pair = __floats2bfloat162_rn(first, second);
  return static_cast<unsigned>(pair.x) | static_cast<unsigned>(pair.y) << 16;
}

template <int n>
__device__ __forceinline__ Pack<n> widen(const RawPack<float, n>& raw) {
  Pack<n> pack;
#pragma unroll
  for (int i = 0; i < n; ++i) pack[i] = __uint_as_float(raw.words[i]);
  return pack;
}
template <int n>
__device__ __forceinline__ Pack<n> widen(const RawPack<__nv_bfloat16, n>& raw) {
  Pack<n> pack;
#pragma unroll
  for (int i = 0; i < n; i += 2) {  // a bfloat16 is the upper half of a float32
    pack[i] = __uint_as_float(raw.words[i / 2] << 16);
    pack[i + 1] = __uint_as_float(raw.words[i / 2] & 0xffff0000u);
  }
  return pack;
}

/// The pack rounded to T, to nearest even.
template <typename T, int n>
__device__ __forceinline__ RawPack<T, n> narrow(const Pack<n>& pack) {
  RawPack<T, n> raw;
  if constexpr (sizeof(T) == sizeof(float)) {
#pragma unroll
    for (int i = 0; i < n; ++i) raw.words[i] = __float_as_uint(pack[i]);
  } else {
#pragma unroll
    for (int i = 0; i < n; i += 2) raw.words[i / 2] = bfloat16_pair(pack[i], pack[i + 1]);
  }
  return raw;
}

/// n elements at x, which has RawPack's alignment.
template <int n, typename T>
__device__ __forceinline__ RawPack<T, n> load_raw(const T* x) {
  return *reinterpret_cast<const RawPack<T, n>*>(x);
}
template <int n, typename T>
__device__ __forceinline__ void store_raw(const RawPack<T, n>& raw, T* x) {
  *reinterpret_cast<RawPack<T, n>*>(x) = raw;
}

/// n elements at x: one of any alignment, or several with RawPack's.
template <int n, typename T>
__device__ __forceinline__ Pack<n> load(const T* x) {
  if constexpr (n == 1) {
    return {to_float32(*x)};
  } else {
    return widen(load_raw<n>(x));
  }
}

/// Writes n elements at x, rounded to T: one of any alignment, or several with RawPack's.
template <int n, typename T>
__device__ __forceinline__ void store(const Pack<n>& pack, T* x) {
  if constexpr (n == 1) {
    *x = from_float32<T>(pack[0]);
  } else {
    store_raw(narrow<T>(pack), x);
  }
}

/// Whether all these addresses are multiples of 16 bytes, as null is.
inline bool are_aligned(std::initializer_list<const void*> addresses) {
  for (const void* address : addresses) {
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return false;
  }
  return true;
}

/// Whether rows of so many columns that follow each other from these addresses (null: not used) can
/// be read and written in packs of n.
inline bool rows_are_aligned(std::int64_t columns, int n,
                             std::initializer_list<const void*> addresses) {
  return columns % n == 0 && are_aligned(addresses);
}

}  // namespace troupe::tensor::cuda
