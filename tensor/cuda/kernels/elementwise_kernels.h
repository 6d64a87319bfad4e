#pragma once

#include <cstdint>

#include "tensor/cuda/kernels/grid_types.h"
#include "tensor/dtype.h"

// T is float or BFloat16.

namespace troupe::tensor::cuda {

/// y[n] += x[n].
template <typename T>
void launch_accumulate(const T* x, T* y, std::int64_t n, cudaStream_t stream);

/// y[n] = x[n], rounded to nearest even.
void launch_convert(const float* x, BFloat16* y, std::int64_t n, cudaStream_t stream);
void launch_convert(const BFloat16* x, float* y, std::int64_t n, cudaStream_t stream);

/// y[rows, columns] += b[columns] (+ residual[rows, columns], if not null). y may be residual.
template <typename T>
void launch_add_bias(const float* b, const T* residual, T* y, std::int64_t rows,
                     std::int64_t columns, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
