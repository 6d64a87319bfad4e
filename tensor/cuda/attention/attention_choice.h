#pragma once

#include "tensor/device/attention.h"

namespace troupe::tensor::cuda {

/// Whether cuDNN's kernels serve attention of this shape, forward and backward, on compute
/// capability 9.0: bfloat16, head sizes that are a multiple of 8 and at most 256, no mask and no
/// documents. It has no backward for float32. Everything else, and calls with dropout, which cuDNN
/// would draw in another way, is left to kernels of our own.
bool cudnn_serves(const AttentionShape& shape);

}  // namespace troupe::tensor::cuda
