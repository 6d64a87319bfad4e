#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/values/dtype.h"

// Rows of float32 tables that tokens look up, and their gradients, as tensor/device/ops.h defines
// them.

namespace troupe::tensor::cuda {

/// Tokens and the table's rows [first, first + rows) that they may name. A token of another id gets
/// zeros, and gives no gradient.
struct Lookup {
  DType dtype = DType::f32;  ///< of x, float32 or bfloat16
  const std::int32_t* ids = nullptr;
  std::int64_t tokens = 0;
  std::int64_t first = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
/// x[tokens, columns] = table[rows, columns] at ids.
void launch_embedding(const Lookup& lookup, const float* table, void* x, cudaStream_t stream);

/// x[tokens, columns] += table[rows, columns] at ids. A token of another id adds nothing.
void launch_add_rows(const Lookup& lookup, const float* table, void* x, cudaStream_t stream);

/// Bytes of `scratch` that launch_embedding_backward needs.
std::size_t embedding_backward_scratch(const Lookup& lookup);
/// dtable[rows, columns] += dx[tokens, columns] at ids, in ascending token order.
void launch_embedding_backward(const Lookup& lookup, const void* dx, float* dtable, void* scratch,
                               cudaStream_t stream);

/// Token t is at position (first + t) % positions.
struct Positions {
  DType dtype = DType::f32;  ///< of x, float32 or bfloat16
  std::int64_t tokens = 0;
  std::int64_t first = 0;
  std::int64_t positions = 0;
  std::int64_t columns = 0;
};
/// x[tokens, columns] += table[positions, columns].
void launch_add_positions(const Positions& positions, const float* table, void* x,
                          cudaStream_t stream);
/// dtable[positions, columns] += dx[tokens, columns], in ascending token order.
void launch_positions_backward(const Positions& positions, const void* dx, float* dtable,
                               cudaStream_t stream);

}  // namespace troupe::tensor::cuda
