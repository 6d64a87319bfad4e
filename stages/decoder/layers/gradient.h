#pragma once

#include "tensor/device.h"
#include "tensor/linear.h"
#include "tensor/ops.h"

namespace troupe::stages {

/// Puts x[N] into the sum of a weight's gradients so far.
inline void give_gradient(tensor::Ops& ops, tensor::Stream& stream, const tensor::Tensor& x,
                          const tensor::Tensor& sum, tensor::Gradient which) {
  which == tensor::Gradient::first ? ops.copy(stream, x, sum) : ops.accumulate(stream, x, sum);
}

}  // namespace troupe::stages
