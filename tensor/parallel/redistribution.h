#pragma once

#include <cstdint>
#include <span>

#include "tensor/device/ops.h"
#include "tensor/device/process_group.h"

// How matrices go from one division among shards to another. Rows are what is contiguous, as the
// tokens of a microbatch; N rows and C columns are those of the whole matrix, n is the number of
// shards, which are the members of the group. Every function returns the tensor that holds its
// result: x itself for a single shard, a view of x if no byte has to move, else `out`, once the ops
// have run that `stream` was given. All memory is the caller's. What n has to divide and does not
// is an Error{manifest} with the numbers.

namespace troupe::tensor {

/// The sum of the shards' x, in place.
Tensor sum_over_shards(Stream& stream, ProcessGroup& group, const Tensor& x);

/// The shard's rows of x[N, C], a view [N/n, C].
Tensor own_rows(ProcessGroup& group, const Tensor& x);
/// out[N, C] = the shards' x[N/n, C], one below the other.
Tensor gather_rows(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& out);
/// out[N/n, C] = the shard's rows of the sum of the shards' x[N, C].
Tensor reduce_scatter_rows(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& out);
/// The two where shard i has counts[i] elements, which are whole rows.
Tensor gather_rows_uneven(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& out,
                          std::span<const std::int64_t> counts);
Tensor reduce_scatter_rows_uneven(Stream& stream, ProcessGroup& group, const Tensor& x,
                                  const Tensor& out, std::span<const std::int64_t> counts);

/// Elements of `scratch` in the functions on columns: collectives move rows, so that columns are
/// laid out as blocks first or afterwards. `elements`: those of the larger of x and out.
std::int64_t column_scratch_elements(ProcessGroup& group, std::int64_t elements);
/// out[N, C/n] = the shard's columns of x[N, C].
Tensor own_columns(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& out);
/// out[N, C] = the shards' x[N, C/n], side by side.
Tensor gather_columns(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& scratch,
                      const Tensor& out);
/// out[N, C/n] = the shard's columns of the sum of the shards' x[N, C].
Tensor reduce_scatter_columns(Stream& stream, ProcessGroup& group, const Tensor& x,
                              const Tensor& scratch, const Tensor& out);

/// Sends send_counts[i] elements of x to shard i, and puts receive_counts[i] elements from shard i
/// into out, both in shard order and whole rows.
Tensor exchange_rows(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& out,
                     std::span<const std::int64_t> send_counts,
                     std::span<const std::int64_t> receive_counts);
/// out[N, C/n] from x[N/n, C]: from a division of rows to one of columns.
Tensor rows_to_columns(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& scratch,
                       const Tensor& out);
/// out[N/n, C] from x[N, C/n]: the inverse.
Tensor columns_to_rows(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& scratch,
                       const Tensor& out);

/// The shard's part of the elements of x, whatever its shape, as a view [elements / n]. A remainder
/// is refused, because it would get lost. gather_rows() is the inverse.
Tensor own_elements(ProcessGroup& group, const Tensor& x);

}  // namespace troupe::tensor
