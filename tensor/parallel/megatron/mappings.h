#pragma once

#include "tensor/parallel/redistribution.h"

// The conjugate operators of Megatron-LM (megatron/core/tensor_parallel/mappings.py) by its names:
// what happens to activations where they enter or leave a part of the model that is divided among
// shards, with what happens to their gradients there. Arguments and results are those of the
// function that does the work (redistribution.h).

namespace troupe::tensor {

/// Entry of a block whose weights are divided: every shard has x, and a part of its gradient.
inline Tensor copy_to_tensor_parallel(const Tensor& x) {
  return x;
}
inline Tensor copy_to_tensor_parallel_backward(Stream& stream, ProcessGroup& group,
                                               const Tensor& dy) {
  return sum_over_shards(stream, group, dy);
}

/// Exit of such a block: every shard has a part of the sum y, and all of its gradient.
inline Tensor reduce_from_tensor_parallel(Stream& stream, ProcessGroup& group, const Tensor& x) {
  return sum_over_shards(stream, group, x);
}
inline Tensor reduce_from_tensor_parallel_backward(const Tensor& dy) {
  return dy;
}

/// Divides columns that every shard has.
inline Tensor scatter_to_tensor_parallel(Stream& stream, ProcessGroup& group, const Tensor& x,
                                         const Tensor& out) {
  return own_columns(stream, group, x, out);
}
inline Tensor scatter_to_tensor_parallel_backward(Stream& stream, ProcessGroup& group,
                                                  const Tensor& dy, const Tensor& scratch,
                                                  const Tensor& out) {
  return gather_columns(stream, group, dy, scratch, out);
}

/// Joins columns for what all shards compute alike.
inline Tensor gather_from_tensor_parallel(Stream& stream, ProcessGroup& group, const Tensor& x,
                                          const Tensor& scratch, const Tensor& out) {
  return gather_columns(stream, group, x, scratch, out);
}
inline Tensor gather_from_tensor_parallel_backward(Stream& stream, ProcessGroup& group,
                                                   const Tensor& dy, const Tensor& out) {
  return own_columns(stream, group, dy, out);
}

/// Divides tokens that every shard has.
inline Tensor scatter_to_sequence_parallel(ProcessGroup& group, const Tensor& x) {
  return own_rows(group, x);
}
inline Tensor scatter_to_sequence_parallel_backward(Stream& stream, ProcessGroup& group,
                                                    const Tensor& dy, const Tensor& out) {
  return gather_rows(stream, group, dy, out);
}

/// Joins tokens before a block whose weights are divided, so that every shard has a part of the
/// gradient.
inline Tensor gather_from_sequence_parallel(Stream& stream, ProcessGroup& group, const Tensor& x,
                                            const Tensor& out) {
  return gather_rows(stream, group, x, out);
}
inline Tensor gather_from_sequence_parallel_backward(Stream& stream, ProcessGroup& group,
                                                     const Tensor& dy, const Tensor& out) {
  return reduce_scatter_rows(stream, group, dy, out);
}
/// The backward where all shards compute alike with the joined tokens, so that every shard has the
/// whole gradient.
inline Tensor gather_from_sequence_parallel_replicated_backward(ProcessGroup& group,
                                                                const Tensor& dy) {
  return own_rows(group, dy);
}
inline Tensor gather_from_sequence_parallel_uneven(Stream& stream, ProcessGroup& group,
                                                   const Tensor& x, const Tensor& out,
                                                   std::span<const std::int64_t> counts) {
  return gather_rows_uneven(stream, group, x, out, counts);
}
inline Tensor gather_from_sequence_parallel_uneven_backward(Stream& stream, ProcessGroup& group,
                                                            const Tensor& dy, const Tensor& out,
                                                            std::span<const std::int64_t> counts) {
  return reduce_scatter_rows_uneven(stream, group, dy, out, counts);
}

/// Exit of a block whose weights are divided, to tokens that are.
inline Tensor reduce_scatter_to_sequence_parallel(Stream& stream, ProcessGroup& group,
                                                  const Tensor& x, const Tensor& out) {
  return reduce_scatter_rows(stream, group, x, out);
}
inline Tensor reduce_scatter_to_sequence_parallel_backward(Stream& stream, ProcessGroup& group,
                                                           const Tensor& dy, const Tensor& out) {
  return gather_rows(stream, group, dy, out);
}
inline Tensor reduce_scatter_to_sequence_parallel_uneven(Stream& stream, ProcessGroup& group,
                                                         const Tensor& x, const Tensor& out,
                                                         std::span<const std::int64_t> counts) {
  return reduce_scatter_rows_uneven(stream, group, x, out, counts);
}
inline Tensor reduce_scatter_to_sequence_parallel_uneven_backward(
    Stream& stream, ProcessGroup& group, const Tensor& dy, const Tensor& out,
    std::span<const std::int64_t> counts) {
  return gather_rows_uneven(stream, group, dy, out, counts);
}

/// Joins columns before a block whose weights are divided.
inline Tensor all_gather_last_dim(Stream& stream, ProcessGroup& group, const Tensor& x,
                                  const Tensor& scratch, const Tensor& out) {
  return gather_columns(stream, group, x, scratch, out);
}
inline Tensor all_gather_last_dim_backward(Stream& stream, ProcessGroup& group, const Tensor& dy,
                                           const Tensor& scratch, const Tensor& out) {
  return reduce_scatter_columns(stream, group, dy, scratch, out);
}

/// Exit of a block whose weights are divided, to columns that are.
inline Tensor reduce_scatter_last_dim(Stream& stream, ProcessGroup& group, const Tensor& x,
                                      const Tensor& scratch, const Tensor& out) {
  return reduce_scatter_columns(stream, group, x, scratch, out);
}
inline Tensor reduce_scatter_last_dim_backward(Stream& stream, ProcessGroup& group,
                                               const Tensor& dy, const Tensor& scratch,
                                               const Tensor& out) {
  return gather_columns(stream, group, dy, scratch, out);
}

/// Rows from every shard to every shard, as the tokens of experts.
inline Tensor all_to_all(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& out,
                         std::span<const std::int64_t> send_counts,
                         std::span<const std::int64_t> receive_counts) {
  return exchange_rows(stream, group, x, out, send_counts, receive_counts);
}
inline Tensor all_to_all_backward(Stream& stream, ProcessGroup& group, const Tensor& dy,
                                  const Tensor& out, std::span<const std::int64_t> send_counts,
                                  std::span<const std::int64_t> receive_counts) {
  return exchange_rows(stream, group, dy, out, receive_counts, send_counts);
}

/// From tokens that are divided to columns that are, and back.
inline Tensor all_to_all_sp2hp(Stream& stream, ProcessGroup& group, const Tensor& x,
                               const Tensor& scratch, const Tensor& out) {
  return rows_to_columns(stream, group, x, scratch, out);
}
inline Tensor all_to_all_sp2hp_backward(Stream& stream, ProcessGroup& group, const Tensor& dy,
                                        const Tensor& scratch, const Tensor& out) {
  return columns_to_rows(stream, group, dy, scratch, out);
}
inline Tensor all_to_all_hp2sp(Stream& stream, ProcessGroup& group, const Tensor& x,
                               const Tensor& scratch, const Tensor& out) {
  return columns_to_rows(stream, group, x, scratch, out);
}
inline Tensor all_to_all_hp2sp_backward(Stream& stream, ProcessGroup& group, const Tensor& dy,
                                        const Tensor& scratch, const Tensor& out) {
  return rows_to_columns(stream, group, dy, scratch, out);
}

}  // namespace troupe::tensor
