#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/device/op_list.h"

// The router of a mixture of experts, and the rows that its tokens become, as tensor/device/ops.h
// defines them.

namespace troupe::tensor::cuda {

/// A router's tokens, and what route() gave of them. Null: a tensor that is not there.
struct RoutedTokens {
  std::int64_t tokens = 0;
  RouterShape router;
  float* probs = nullptr;
  std::int32_t* chosen = nullptr;
  float* weights = nullptr;
  float* lse = nullptr;
  const std::int32_t* counted = nullptr;  ///< of the tokens; all count if it is null
};
/// probs may be logits[tokens, experts].
void launch_route(const RoutedTokens& to, const float* logits, cudaStream_t stream);
/// dlogits[tokens, experts] may be probs. balance[experts] may be null; z is 0 or lse is read.
void launch_route_backward(const RoutedTokens& from, const float* dweights, const float* balance,
                           float z, float* dlogits, cudaStream_t stream);
/// load[2 experts + 3] of probs, chosen, lse and the tokens that count.
void launch_router_load(const RoutedTokens& from, float* load, cudaStream_t stream);

/// Choices of `experts`, `each` of them for a token, and where they are put.
struct SortedRows {
  const std::int32_t* chosen = nullptr;
  const float* weights = nullptr;
  std::int64_t choices = 0;  ///< at least 1
  std::int64_t each = 1;
  std::int64_t experts = 1;
  std::int32_t* offsets = nullptr;
  std::int32_t* row_of = nullptr;
  std::int32_t* token_of = nullptr;
  float* row_weights = nullptr;
};
/// Bytes of `scratch` that launch_sort_rows needs.
std::size_t sort_rows_scratch(const SortedRows& rows);
void launch_sort_rows(const SortedRows& rows, void* scratch, cudaStream_t stream);

/// y[count] = rows of x, each of so many bytes.
void launch_gather_rows(const void* x, const std::int32_t* rows, void* y, std::int64_t count,
                        std::size_t bytes, cudaStream_t stream);
/// y[tokens, columns] = `each` rows of x, added in the order of row_of[tokens, each] (+ residual,
/// if not null).
void launch_sum_rows(DType dtype, const void* x, const std::int32_t* row_of, std::int64_t each,
                     const void* residual, void* y, std::int64_t tokens, std::int64_t columns,
                     cudaStream_t stream);

}  // namespace troupe::tensor::cuda
