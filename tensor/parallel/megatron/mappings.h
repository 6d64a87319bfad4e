#pragma once

#include "tensor/parallel/redistribution.h"

// The conjugate operators of Megatron-LM (megatron/core/tensor_parallel/mappings.py) by its names:
// what happens to activations where they enter or leave a part of the model that is divided among
// shards, with what happens to their gradients there. Arguments and results are those of the
// function that does the work (redistribution.h), of which most are another name.

namespace troupe::tensor {

/// Entry of a block whose weights are divided: every shard has x, and a part of its gradient.
inline Tensor copy_to_tensor_parallel(const Tensor& x) {
  return x;
}
inline constexpr auto& copy_to_tensor_parallel_backward = sum_over_shards;

/// Exit of such a block: every shard has a part of the sum y, and all of its gradient.
inline constexpr auto& reduce_from_tensor_parallel = sum_over_shards;
inline Tensor reduce_from_tensor_parallel_backward(const Tensor& dy) {
  return dy;
}

/// Divides columns that every shard has.
inline constexpr auto& scatter_to_tensor_parallel = own_columns;
inline constexpr auto& scatter_to_tensor_parallel_backward = gather_columns;

/// Joins columns for what all shards compute alike.
inline constexpr auto& gather_from_tensor_parallel = gather_columns;
inline constexpr auto& gather_from_tensor_parallel_backward = own_columns;

/// Divides tokens that every shard has.
inline constexpr auto& scatter_to_sequence_parallel = own_rows;
inline constexpr auto& scatter_to_sequence_parallel_backward = gather_rows;

/// Joins tokens before a block whose weights are divided, so that every shard has a part of the
/// gradient.
inline constexpr auto& gather_from_sequence_parallel = gather_rows;
inline constexpr auto& gather_from_sequence_parallel_backward = reduce_scatter_rows;
/// The backward where all shards compute alike with the joined tokens, so that every shard has the
/// whole gradient.
inline constexpr auto& gather_from_sequence_parallel_replicated_backward = own_rows;
inline constexpr auto& gather_from_sequence_parallel_uneven = gather_rows_uneven;
inline constexpr auto& gather_from_sequence_parallel_uneven_backward = reduce_scatter_rows_uneven;

/// Exit of a block whose weights are divided, to tokens that are.
inline constexpr auto& reduce_scatter_to_sequence_parallel = reduce_scatter_rows;
inline constexpr auto& reduce_scatter_to_sequence_parallel_backward = gather_rows;
inline constexpr auto& reduce_scatter_to_sequence_parallel_uneven = reduce_scatter_rows_uneven;
inline constexpr auto& reduce_scatter_to_sequence_parallel_uneven_backward = gather_rows_uneven;

/// Joins columns before a block whose weights are divided.
inline constexpr auto& all_gather_last_dim = gather_columns;
inline constexpr auto& all_gather_last_dim_backward = reduce_scatter_columns;

/// Exit of a block whose weights are divided, to columns that are.
inline constexpr auto& reduce_scatter_last_dim = reduce_scatter_columns;
inline constexpr auto& reduce_scatter_last_dim_backward = gather_columns;

/// Rows from every shard to every shard, as the tokens of experts.
inline constexpr auto& all_to_all = exchange_rows;
inline Tensor all_to_all_backward(Stream& stream, ProcessGroup& group, const Tensor& dy,
                                  const Tensor& out, std::span<const std::int64_t> send_counts,
                                  std::span<const std::int64_t> receive_counts) {
  return exchange_rows(stream, group, dy, out, receive_counts, send_counts);
}

/// From tokens that are divided to columns that are, and back.
inline constexpr auto& all_to_all_sp2hp = rows_to_columns;
inline constexpr auto& all_to_all_sp2hp_backward = columns_to_rows;
inline constexpr auto& all_to_all_hp2sp = columns_to_rows;
inline constexpr auto& all_to_all_hp2sp_backward = rows_to_columns;

}  // namespace troupe::tensor
