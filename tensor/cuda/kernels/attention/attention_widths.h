#pragma once

#include <cstdint>
#include <type_traits>

#include "tensor/cuda/kernels/attention/attention_kernels.h"
#include "tensor/cuda/kernels/attention/attention_place.h"
#include "tensor/cuda/kernels/attention/attention_tile.h"
#include "tensor/cuda/kernels/grid/dispatch.h"

// Which of the attention kernels, compiled for some widths of rows and for tilings that need more
// or less shared memory, serves a head size on a GPU.

namespace troupe::tensor::cuda {

template <typename T, int width>
struct HeadWidth {};

/// Calls body(HeadWidth<T, width>()) with the smallest width that holds rows of `head_dim`
/// elements.
template <typename T, typename Body>
void with_width_of(int head_dim, const Body& body) {
#ifndef __CUDACC__  // models of tests have such heads; a GPU needs no kernels of their own for them
  if (head_dim <= 16) return body(HeadWidth<T, 16>());
  if (head_dim <= 32) return body(HeadWidth<T, 32>());
#endif
  if (head_dim <= 64) return body(HeadWidth<T, 64>());
  if (head_dim <= 128) return body(HeadWidth<T, 128>());
  static_assert(kMostHeadDim == 256);
  return body(HeadWidth<T, 256>());
}

template <typename Body>
void with_width(DType dtype, int head_dim, const Body& body) {
  if (dtype == DType::f32) return with_width_of<float>(head_dim, body);
  return with_width_of<__nv_bfloat16>(head_dim, body);
}

/// Calls body with std::true_type for the kernels that know windows and caps, else std::false_type.
/// In float32 one kernel serves all: a second one of each would be a tenth of the library, for what
/// only tests and small models compute in.
template <typename T, typename Body>
void with_limits(bool limited, const Body& body) {
  if constexpr (std::is_same_v<T, float>) {
    body(std::true_type());
  } else {
    with_constant(limited, body);
  }
}

/// One block for each `rows` positions of each of `heads` heads of each sequence.
template <int rows>
unsigned blocks_of(const AttentionArguments& x, int heads) {
  return static_cast<unsigned>(std::int64_t{tiles_of<rows>(x)} * x.batch * heads);
}

// What a block of a kernel has in its shared memory is a type, of which kBytes are needed.

template <typename Memory>
__host__ __device__ constexpr bool fits_in(std::size_t limit) {
  return Memory::kBytes + kMostStaticBesideDynamic <= limit;
}

/// Calls body(Type<Large>()) if the GPU of `stream` has the shared memory for it, else
/// body(Type<Small>()), for which all have.
template <typename Large, typename Small, typename Body>
void with_memory(cudaStream_t stream, const Body& body) {
  if constexpr (!fits_in<Large>(kSharedOf86)) {
    static_assert(fits_in<Small>(kSharedOf86));
    if (!fits_in<Large>(shared_limit(stream))) return body(Type<Small>());
  }
  body(Type<Large>());
}

#if !defined(__CUDA_ARCH__)
inline constexpr std::size_t kLeastLimit = kSharedOf86, kMostLimit = kSharedOf90;
#elif __CUDA_ARCH__ >= 1200
inline constexpr std::size_t kLeastLimit = kSharedOf86, kMostLimit = kSharedOf86;
#elif __CUDA_ARCH__ >= 900
inline constexpr std::size_t kLeastLimit = kSharedOf90, kMostLimit = kSharedOf90;
#else
inline constexpr std::size_t kLeastLimit = kSharedOf86, kMostLimit = kSharedOf80;
#endif

/// Blocks for which a multiprocessor has the shared memory, at least 1 and at most `most`. It has 1
/// KiB more than a block may have, and takes as much for each block itself.
template <typename Memory>
__host__ __device__ constexpr int blocks_together(int most) {
  constexpr std::size_t kMore = 1024;
  const int fit = static_cast<int>((kMostLimit + kMore) / (Memory::kBytes + kMore));
  return fit < 1 ? 1 : fit < most ? fit : most;
}

/// Whether with_memory() chooses `Memory`, one of its two, on a GPU that runs what is being
/// compiled. A kernel without use there is compiled to nothing: it would need time and room, and
/// its registers might not fit.
template <typename Memory, typename Large>
__host__ __device__ constexpr bool is_of_use() {
  if (std::is_same_v<Memory, Large>) return fits_in<Large>(kMostLimit);
  return !fits_in<Large>(kLeastLimit);
}

}  // namespace troupe::tensor::cuda
