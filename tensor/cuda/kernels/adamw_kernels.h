#pragma once

#include <cstdint>

#include "tensor/adamw_factors.h"
#include "tensor/cuda/kernels/grid_types.h"
#include "tensor/dtype.h"

namespace troupe::tensor::cuda {

/// One update of `count` float32 elements, as AdamWFactors says. The outputs may be the inputs.
/// `copy`, of float32 or bfloat16 elements, becomes w_out; null: there is none.
struct AdamWUpdate {
  AdamWFactors factors;
  std::int64_t count = 0;
  const float* gradient = nullptr;
  const float *w = nullptr, *m = nullptr, *v = nullptr;
  float *w_out = nullptr, *m_out = nullptr, *v_out = nullptr;
  void* copy = nullptr;
  DType copy_dtype = DType::f32;
};
void launch_adamw(const AdamWUpdate& update, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
