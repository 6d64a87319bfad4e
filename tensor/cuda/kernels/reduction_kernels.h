#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid_types.h"

namespace troupe::tensor::cuda {

/// *sum = the sum of parts[count], in an order that depends on `count` alone. `sum` may be pinned
/// host memory.
void launch_sum(const double* parts, std::int64_t count, double* sum, cudaStream_t stream);

/// sums[i] = the sum of squares of the i-th `piece` elements of x[count] in float64, in an order
/// that depends on their number alone. `sums` may be pinned host memory.
void launch_sums_of_squares(const float* x, std::int64_t count, std::int64_t piece, double* sums,
                            cudaStream_t stream);

}  // namespace troupe::tensor::cuda
