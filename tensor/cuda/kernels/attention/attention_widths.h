#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/attention/attention_kernels.h"
#include "tensor/cuda/kernels/attention/attention_place.h"
#include "tensor/cuda/kernels/attention/attention_tile.h"

// Which of the attention kernels, compiled for some widths of rows, serves a head size.

namespace troupe::tensor::cuda {

template <typename T, int width>
struct HeadWidth {};

/// Calls body(HeadWidth<T, width>()) with the smallest width that holds rows of `head_dim`
/// elements.
template <typename T, typename Body>
void with_width_of(int head_dim, const Body& body) {
  if (head_dim <= 16) return body(HeadWidth<T, 16>());
  if (head_dim <= 32) return body(HeadWidth<T, 32>());
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

/// One block for each 64 positions of each of `heads` heads of each sequence.
inline unsigned blocks_of(const AttentionArguments& x, int heads) {
  return static_cast<unsigned>(std::int64_t{tiles_of(x)} * x.batch * heads);
}

}  // namespace troupe::tensor::cuda
