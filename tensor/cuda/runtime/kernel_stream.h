#pragma once

#include <cstddef>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/device/device.h"

namespace troupe::tensor::cuda {

/// A stream that kernels are launched on: every stream of a device whose ops are CudaOps is one.
class KernelStream : public Stream {
 public:
  /// What launch functions take.
  virtual cudaStream_t handle() const = 0;
  /// Device memory of this stream alone, of arbitrary content, aligned to 256 bytes, for an op's
  /// partial results. It grows with the largest request, and each call may move it: an op asks once
  /// for all it needs.
  virtual void* scratch(std::size_t bytes) = 0;
};

inline KernelStream& kernel_stream(Stream& stream) {
  return static_cast<KernelStream&>(stream);
}
inline cudaStream_t handle_of(Stream& stream) {
  return kernel_stream(stream).handle();
}

}  // namespace troupe::tensor::cuda
