#pragma once

#include <memory>
#include <span>

#include "tensor/parallel/tensor_parallel.h"

// Gradients of parameters that more than one shard holds. Where a shard computes only a part of
// such a gradient, the parts are summed once a step, before the gradients are reduced over
// replicas: a sum and never an average, because each part belongs to other tokens or other heads.

namespace troupe::tensor {

/// The parameters that every shard holds.
enum class Replicated {
  norm,       ///< weights of a norm between the divided parts of a layer
  row_bias,   ///< the bias of a row-parallel layer
  head_norm,  ///< weights of a norm of queries or keys, which every head uses
};

/// Whether each shard has only a part of the gradient: for its own tokens, or its own heads.
bool has_partial_gradient(Replicated parameter, const TensorParallel& parallel);

/// Sums gradients (float32, the same list on every shard) over all shards, in place and in one
/// collective. Null if there is one shard or no gradient.
std::unique_ptr<Work> sum_replicated_gradients(Stream& stream, const TensorParallel& parallel,
                                               std::span<const Tensor> gradients);

/// Elements of `scratch` in sum_copies() for a part of `elements`: those of all different parts.
std::int64_t copies_scratch_elements(const TensorParallel& parallel, int copies,
                                     std::int64_t elements);
/// Sums a gradient (float32) over each group of `copies` consecutive shards that hold the same
/// part, as the shards of one key-value head (kv_copies()). The work fills scratch, and
/// take_copies() puts the sum into the gradient after it. Null if copies is 1.
std::unique_ptr<Work> sum_copies(Stream& stream, const TensorParallel& parallel, int copies,
                                 const Tensor& gradient, const Tensor& scratch);
void take_copies(Stream& stream, const TensorParallel& parallel, int copies, const Tensor& scratch,
                 const Tensor& gradient);

/// Whether this shard's copy of a parameter counts in sums over all shards, as the norm of the
/// gradient. copies: 1 for a divided parameter, size() for one that every shard holds.
bool counts_in_norm(const TensorParallel& parallel, int copies);

}  // namespace troupe::tensor
