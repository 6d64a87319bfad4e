#pragma once

#include "tensor/cuda/kernel_stream.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

// What the methods of CudaOps do with their arguments.

namespace troupe::tensor::cuda {

inline KernelStream& kernel_stream(Stream& stream) {
  return static_cast<KernelStream&>(stream);
}
inline cudaStream_t handle_of(Stream& stream) {
  return kernel_stream(stream).handle();
}

inline bool is_act(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16;
}

/// Calls body(type) with a null pointer to the element type of act tensors, float or BFloat16.
template <typename Body>
void with_act(DType dtype, const Body& body) {
  TROUPE_ASSERT(is_act(dtype));
  if (dtype == DType::f32) return body(static_cast<float*>(nullptr));
  body(static_cast<BFloat16*>(nullptr));
}

}  // namespace troupe::tensor::cuda
