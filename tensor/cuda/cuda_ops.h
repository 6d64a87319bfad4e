#pragma once

#include "tensor/device/ops.h"

namespace troupe::tensor::cuda {

/// The ops as kernels on a GPU: each call queues launches on its stream and returns. Streams are
/// KernelStreams of one device; tensors lie in device memory or, where Ops says so, in pinned
/// memory. Without state, so that any thread may call with a stream that it alone uses. Kernels are
/// in kernels/, by family. Compiled for a GPU, and for the emulated grid of the tests.
class CudaOps final : public Ops {
  TROUPE_OPS(TROUPE_DECLARE_OP)
};

}  // namespace troupe::tensor::cuda
