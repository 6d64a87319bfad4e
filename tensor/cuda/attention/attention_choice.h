#pragma once

#include "tensor/device/attention.h"

namespace troupe::tensor::cuda {

/// Whether cuDNN's kernels may serve attention of this shape, forward and backward: bfloat16, head
/// sizes that are a multiple of 8 and at most 256, and no mask, no cap and no window that hides
/// keys. It has no backward for float32. Some GPUs take less, which cuDNN says when it is asked for
/// a plan: a deterministic backward for head sizes above 128 is there on 9.0 alone, and documents
/// have a backward on 9.0 and 10.x. Everything else, and calls with dropout, which cuDNN would draw
/// in another way, is left to kernels of our own.
bool cudnn_serves(const AttentionShape& shape);

/// The most documents that a call may have for cuDNN to compute it, for a shape with documents: two
/// for each sequence, which samples with padding are, or more if they have 128 tokens on average,
/// which is what a tile of its kernels takes. Our own kernels lose less by shorter ones, and
/// attention is a small part of a step then.
std::int64_t most_documents(const AttentionShape& shape);

}  // namespace troupe::tensor::cuda
