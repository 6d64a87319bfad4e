#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/values/dtype.h"

// RMSNorm and layer normalization of the rows of x[rows, columns] (of `dtype`, float32 or
// bfloat16), as tensor/device/ops.h defines them. All other arrays are float32. All pointers are
// device memory; a launch function only queues its kernels.

namespace troupe::tensor::cuda {

struct NormForward {
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const void* x = nullptr;
  const float* w = nullptr;
  const float* b = nullptr;  ///< null: RMSNorm
  float eps = 0;
  float plus = 0;  ///< what is added to the weights of an RMSNorm
  void* y = nullptr;
  float* mean = nullptr;  ///< null: RMSNorm
  float* rstd = nullptr;
};
void launch_norm(const NormForward& norm, cudaStream_t stream);

struct NormBackward {
  DType dtype = DType::f32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const void* dy = nullptr;
  const void* x = nullptr;
  const float* w = nullptr;
  float plus = 0;               ///< as NormForward's
  const float* mean = nullptr;  ///< null: RMSNorm
  const float* rstd = nullptr;
  const void* residual = nullptr;  ///< null: none
  void* dx = nullptr;              ///< may be residual or dy
  float* dw = nullptr;
  float* db = nullptr;  ///< null: RMSNorm
};
/// Bytes of `scratch` that launch_norm_backward needs.
std::size_t norm_backward_scratch(const NormBackward& norm);
void launch_norm_backward(const NormBackward& norm, void* scratch, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
