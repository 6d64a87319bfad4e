#include "tensor/parallel/redistribution.h"

#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"

namespace troupe::tensor {
namespace {

/// Copies the columns of a matrix into n blocks, one below the other.
void stack_columns(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& blocks) {
  const std::int64_t width = blocks.shape[1], rows = x.shape[0];
  for (int i = 0; i < group.size(); ++i) {
    stream.device().ops().copy_columns(stream, x, i * width, row_view(blocks, i * rows, rows), 0,
                                       width);
  }
}

/// Copies n blocks, one below the other, into a matrix side by side.
void join_columns(Stream& stream, ProcessGroup& group, const Tensor& blocks, const Tensor& out) {
  const std::int64_t width = blocks.shape[1], rows = out.shape[0];
  for (int i = 0; i < group.size(); ++i) {
    stream.device().ops().copy_columns(stream, row_view(blocks, i * rows, rows), 0, out, i * width,
                                       width);
  }
}

/// `scratch` as n blocks of a matrix whose rows and columns one block has.
Tensor blocks_in(const Tensor& scratch, ProcessGroup& group, std::int64_t rows,
                 std::int64_t columns) {
  TROUPE_ASSERT(scratch.num_elements() >= group.size() * rows * columns);
  return {scratch.data, scratch.dtype, {group.size() * rows, columns}};
}

}  // namespace

Tensor sum_over_shards(Stream& stream, ProcessGroup& group, const Tensor& x) {
  if (group.size() > 1) group.all_reduce(stream, x)->wait(stream);
  return x;
}

Tensor own_rows(ProcessGroup& group, const Tensor& x) {
  TROUPE_ASSERT(x.shape.rank() == 2);
  const std::int64_t rows = even_part("rows", x.shape[0], group.size());
  return row_view(x, group.member() * rows, rows);
}

Tensor gather_rows(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& out) {
  return gather_rows_uneven(stream, group, x, out, {});
}

Tensor reduce_scatter_rows(Stream& stream, ProcessGroup& group, const Tensor& x,
                           const Tensor& out) {
  if (group.size() > 1) even_part("rows", x.shape[0], group.size());
  return reduce_scatter_rows_uneven(stream, group, x, out, {});
}

Tensor gather_rows_uneven(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& out,
                          std::span<const std::int64_t> counts) {
  if (group.size() == 1) return x;
  group.all_gather(stream, x, out, counts)->wait(stream);
  return out;
}

Tensor reduce_scatter_rows_uneven(Stream& stream, ProcessGroup& group, const Tensor& x,
                                  const Tensor& out, std::span<const std::int64_t> counts) {
  if (group.size() == 1) return x;
  group.reduce_scatter(stream, x, out, Reduction::sum, counts)->wait(stream);
  return out;
}

std::int64_t column_scratch_elements(ProcessGroup& group, std::int64_t elements) {
  return group.size() == 1 ? 0 : elements;
}

Tensor own_columns(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& out) {
  if (group.size() == 1) return x;
  const std::int64_t width = even_part("columns", x.shape[1], group.size());
  stream.device().ops().copy_columns(stream, x, group.member() * width, out, 0, width);
  return out;
}

Tensor gather_columns(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& scratch,
                      const Tensor& out) {
  if (group.size() == 1) return x;
  const Tensor blocks = blocks_in(scratch, group, x.shape[0], x.shape[1]);
  group.all_gather(stream, x, blocks)->wait(stream);
  join_columns(stream, group, blocks, out);
  return out;
}

Tensor reduce_scatter_columns(Stream& stream, ProcessGroup& group, const Tensor& x,
                              const Tensor& scratch, const Tensor& out) {
  if (group.size() == 1) return x;
  const std::int64_t width = even_part("columns", x.shape[1], group.size());
  const Tensor blocks = blocks_in(scratch, group, x.shape[0], width);
  stack_columns(stream, group, x, blocks);
  group.reduce_scatter(stream, blocks, out)->wait(stream);
  return out;
}

Tensor exchange_rows(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& out,
                     std::span<const std::int64_t> send_counts,
                     std::span<const std::int64_t> receive_counts) {
  if (group.size() == 1) return x;
  group.all_to_all(stream, x, out, send_counts, receive_counts)->wait(stream);
  return out;
}

Tensor rows_to_columns(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& scratch,
                       const Tensor& out) {
  if (group.size() == 1) return x;
  const std::int64_t width = even_part("columns", x.shape[1], group.size());
  const Tensor blocks = blocks_in(scratch, group, x.shape[0], width);
  stack_columns(stream, group, x, blocks);
  group.all_to_all(stream, blocks, out)->wait(stream);
  return out;
}

Tensor columns_to_rows(Stream& stream, ProcessGroup& group, const Tensor& x, const Tensor& scratch,
                       const Tensor& out) {
  if (group.size() == 1) return x;
  const std::int64_t rows = even_part("rows", x.shape[0], group.size());
  const Tensor blocks = blocks_in(scratch, group, rows, x.shape[1]);
  group.all_to_all(stream, x, blocks)->wait(stream);
  join_columns(stream, group, blocks, out);
  return out;
}

Tensor own_elements(ProcessGroup& group, const Tensor& x) {
  const std::int64_t part = even_part("elements", x.num_elements(), group.size());
  const auto offset = group.member() * part * static_cast<std::int64_t>(size_of(x.dtype));
  return {x.as<std::byte>() + offset, x.dtype, {part}};
}

}  // namespace troupe::tensor
