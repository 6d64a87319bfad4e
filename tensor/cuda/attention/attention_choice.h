#pragma once

#include "tensor/device/attention.h"

namespace troupe::tensor::cuda {

/// Whether cuDNN's kernels may serve attention of this shape, forward and backward: bfloat16, head
/// sizes that are a multiple of 8 and at most 256, no mask and no documents. It has no backward for
/// float32. Some GPUs take less, which cuDNN says when it is asked for a plan: a deterministic
/// backward for head sizes above 128 is there on 9.0 alone. Everything else, and calls with
/// dropout, which cuDNN would draw in another way, is left to kernels of our own.
bool cudnn_serves(const AttentionShape& shape);

}  // namespace troupe::tensor::cuda
