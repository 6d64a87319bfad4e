#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/values/dtype.h"

// RMSNorm of heads of the rows of a matrix, each by itself, as tensor/device/ops.h defines it. All
// pointers are device memory; a launch function only queues its kernels.

namespace troupe::tensor::cuda {

/// Columns of x[tokens, stride] (of `dtype`, float32 or bfloat16): `heads` of `dim` from column
/// `first` on.
struct NormedHeads {
  DType dtype = DType::f32;
  std::int64_t tokens = 0;
  std::int64_t stride = 0;
  std::int64_t first = 0;
  std::int64_t heads = 1;
  std::int64_t dim = 0;
  const void* x = nullptr;
  const float* w = nullptr;  ///< [dim]
  float plus = 0;            ///< what is added to the weights
  float eps = 0;
  /// [tokens], sums of squares over `width` columns, of which this shard has `dim`; null: they are
  /// of the head itself.
  const float* squares = nullptr;
  std::int64_t width = 0;
};

/// Writes the norm into these columns of y[tokens, stride], which may be x.
void launch_head_norm(const NormedHeads& heads, void* y, cudaStream_t stream);

struct HeadNormBackward {
  NormedHeads heads;
  const void* dy = nullptr;     ///< [tokens, stride]
  const float* dots = nullptr;  ///< [tokens], as `squares`: sums of dy (plus + w) x
  void* dx = nullptr;           ///< may be dy
  float* dw = nullptr;          ///< [dim]
};
/// Bytes of `scratch` that launch_head_norm_backward needs.
std::size_t head_norm_backward_scratch(const HeadNormBackward& norm);
void launch_head_norm_backward(const HeadNormBackward& norm, void* scratch, cudaStream_t stream);

/// sums[tokens] = the sum of x^2 over a row's one head, or of dy (plus + w) x if dy[tokens, stride]
/// is not null.
void launch_head_sums(const NormedHeads& heads, const void* dy, float* sums, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
