#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/values/dtype.h"

// Sums over the rows of a matrix, column by column: the gradients of biases and of the weights of
// norms. The rows are divided among a number of blocks that follows from the shape, and the blocks'
// partial sums are added in a fixed order.

namespace troupe::tensor::cuda {

/// What is summed: dy[rows, columns] if x is null. Else dy (x - mean) rstd, mean and rstd being of
/// a row and the mean 0 if it is null; if there is a mean, dy itself is summed too.
struct ColumnTerms {
  DType dtype = DType::f32;  ///< of dy and x, float32 or bfloat16
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const void* dy = nullptr;
  const void* x = nullptr;
  const float* mean = nullptr;
  const float* rstd = nullptr;
};

/// Where the sums go, [columns] each.
struct ColumnOutputs {
  float* first = nullptr;
  float* second = nullptr;  ///< null if there is one sum; else that of dy
  bool add = false;         ///< to what they hold, instead of overwriting it
};

/// Bytes of `scratch` that launch_column_sums needs.
std::size_t column_sums_scratch(const ColumnTerms& terms);
void launch_column_sums(const ColumnTerms& terms, const ColumnOutputs& outputs, void* scratch,
                        cudaStream_t stream);

/// Sums partial[parts, columns], or partial[parts, 2, columns] if there are two outputs.
void launch_add_partials(const float* partial, std::int64_t parts, std::int64_t columns,
                         const ColumnOutputs& outputs, cudaStream_t stream);

/// *sum = the sum of parts[count], in an order that depends on `count` alone. `sum` may be pinned
/// host memory.
void launch_sum(const double* parts, std::int64_t count, double* sum, cudaStream_t stream);

/// sums[i] = the sum of squares of the i-th `piece` elements of x[count] in float64, in an order
/// that depends on their number alone. `sums` may be pinned host memory.
void launch_sums_of_squares(const float* x, std::int64_t count, std::int64_t piece, double* sums,
                            cudaStream_t stream);

}  // namespace troupe::tensor::cuda
