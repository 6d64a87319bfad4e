#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid_types.h"

namespace troupe::tensor::cuda {

/// *sum = the sum of parts[count], in an order that depends on `count` alone. `sum` may be pinned
/// host memory.
void launch_sum(const double* parts, std::int64_t count, double* sum, cudaStream_t stream);

/// Bytes of `scratch` that launch_sum_of_squares needs.
std::size_t sum_of_squares_scratch(std::int64_t count);
/// *sum = the sum of squares of x[count] in float64, in an order that depends on `count` alone.
/// `sum` may be pinned host memory.
void launch_sum_of_squares(const float* x, std::int64_t count, double* sum, void* scratch,
                           cudaStream_t stream);

}  // namespace troupe::tensor::cuda
