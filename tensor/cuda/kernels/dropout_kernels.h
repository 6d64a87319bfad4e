#pragma once

#include "tensor/cuda/kernels/grid_types.h"
#include "tensor/dtype.h"
#include "tensor/random.h"

namespace troupe::tensor::cuda {

/// y[rows, columns] = x where kept, times the dropout's scale, and 0 where dropped (+ residual, if
/// not null). x is the part `slice` of the matrix whose elements are drawn. y may be x or residual.
/// T is float or BFloat16.
template <typename T>
void launch_dropout(const Dropout& dropout, const MatrixSlice& slice, const T* x, const T* residual,
                    T* y, std::int64_t rows, std::int64_t columns, cudaStream_t stream);

}  // namespace troupe::tensor::cuda
