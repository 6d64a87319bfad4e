#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/grid.h"
#include "tensor/dtype.h"

// Elements of memory, float32 or bfloat16 (__nv_bfloat16), as the float32 numbers that kernels
// compute with: one at a time, or several by loads and stores of 16 bytes.

namespace troupe::tensor::cuda {

/// Consecutive elements as float32.
template <int n>
struct Pack {
  float values[n];

  __device__ __forceinline__ float& operator[](int i) { return values[i]; }
  __device__ __forceinline__ const float& operator[](int i) const { return values[i]; }
};

/// Elements of T in 16 bytes.
template <typename T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

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

__device__ __forceinline__ void unpack(const uint4& bits, const float*, float* values) {
  values[0] = __uint_as_float(bits.x);
  values[1] = __uint_as_float(bits.y);
  values[2] = __uint_as_float(bits.z);
  values[3] = __uint_as_float(bits.w);
}
__device__ __forceinline__ void unpack(const uint4& bits, const __nv_bfloat16*, float* values) {
  const unsigned words[] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // a bfloat16 is the upper half of a float32
    values[2 * i] = __uint_as_float(words[i] << 16);
    values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}

__device__ __forceinline__ uint4 pack_bits(const float* values, const float*) {
  return make_uint4(__float_as_uint(values[0]), __float_as_uint(values[1]),
                    __float_as_uint(values[2]), __float_as_uint(values[3]));
}
__device__ __forceinline__ uint4 pack_bits(const float* values, const __nv_bfloat16*) {
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned low = __bfloat16_as_ushort(__float2bfloat16_rn(values[2 * i]));
    const unsigned high = __bfloat16_as_ushort(__float2bfloat16_rn(values[2 * i + 1]));
    words[i] = low | high << 16;
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

/// n elements at x: one of any alignment, or a multiple of kPack<T>, aligned to 16 bytes.
template <int n, typename T>
__device__ __forceinline__ Pack<n> load(const T* x) {
  Pack<n> pack;
  if constexpr (n == 1) {
    pack[0] = to_float32(*x);
  } else {
    static_assert(n % kPack<T> == 0);
    uint4 bits[n / kPack<T>];
#pragma unroll
    for (int i = 0; i < n / kPack<T>; ++i) bits[i] = reinterpret_cast<const uint4*>(x)[i];
#pragma unroll
    for (int i = 0; i < n / kPack<T>; ++i) unpack(bits[i], x, pack.values + i * kPack<T>);
  }
  return pack;
}

/// Writes n elements at x, rounded to T: one of any alignment, or a multiple of kPack<T>, aligned
/// to 16 bytes.
template <int n, typename T>
__device__ __forceinline__ void store(const Pack<n>& pack, T* x) {
  if constexpr (n == 1) {
    *x = from_float32<T>(pack[0]);
  } else {
    static_assert(n % kPack<T> == 0);
#pragma unroll
    for (int i = 0; i < n / kPack<T>; ++i) {
      reinterpret_cast<uint4*>(x)[i] = pack_bits(pack.values + i * kPack<T>, x);
    }
  }
}

/// The elements of a launch function's argument, as kernels have them.
inline float* elements(float* x) {
  return x;
}
inline const float* elements(const float* x) {
  return x;
}
inline __nv_bfloat16* elements(BFloat16* x) {
  return reinterpret_cast<__nv_bfloat16*>(x);
}
inline const __nv_bfloat16* elements(const BFloat16* x) {
  return reinterpret_cast<const __nv_bfloat16*>(x);
}

/// Whether x is aligned to 16 bytes. A null pointer is.
template <typename T>
bool is_aligned(const T* x) {
  return reinterpret_cast<std::uintptr_t>(x) % 16 == 0;
}

/// Whether each row of a matrix is aligned to 16 bytes, if it has rows of `columns` elements.
template <typename T>
bool rows_are_aligned(const T* x, std::int64_t columns) {
  return is_aligned(x) && columns * static_cast<std::int64_t>(sizeof(T)) % 16 == 0;
}

}  // namespace troupe::tensor::cuda
