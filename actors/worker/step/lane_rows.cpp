#include "actors/worker/step/lane_rows.h"

#include <algorithm>

#include "tensor/device/ops.h"
#include "tensor/parallel/division.h"

namespace troupe::actors {
namespace {

using tensor::Stream;
using tensor::Tensor;

// Rows move by so many that are fewer than they are themselves: block by block, none over rows that
// are still to be moved. Parts are multiples of a part of their room, so that there are few blocks.

void move_down(Stream& stream, const Tensor& x, std::int64_t from, std::int64_t to,
               std::int64_t rows) {
  const std::int64_t by = from - to;
  for (std::int64_t row = 0; by > 0 && row < rows; row += by) {
    const std::int64_t count = std::min(by, rows - row);
    stream.device().ops().copy(stream, row_view(x, from + row, count),
                               row_view(x, to + row, count));
  }
}

void move_up(Stream& stream, const Tensor& x, std::int64_t from, std::int64_t to,
             std::int64_t rows) {
  const std::int64_t by = to - from;
  for (std::int64_t end = rows; by > 0 && end > 0; end -= by) {
    const std::int64_t count = std::min(by, end);
    stream.device().ops().copy(stream, row_view(x, from + end - count, count),
                               row_view(x, to + end - count, count));
  }
}

/// A shard's part of a tensor that all shards have is a row of elements.
Tensor in_rows(const Tensor& x) {
  return x.shape.rank() == 2 ? x : Tensor{x.data, x.dtype, {x.shape[0], 1}};
}

}  // namespace

std::int64_t LaneRows::rows_in_use(const Tensor& x, int microbatch) const {
  return x.shape[0] * tokens_.documents(microbatch).rows / capacity_;
}

std::int64_t LaneRows::rows_of(const Tensor& x, int microbatch, int part) const {
  return are_alike_ ? rows_in_use(x, microbatch) / parts_ : tokens_.rows_of_lane(microbatch, part);
}

void LaneRows::gather(Stream& stream, const Tensor& tensor, int microbatch) const {
  if (!are_apart()) return;
  const Tensor x = in_rows(tensor);
  const std::int64_t room = x.shape[0] / parts_;
  std::int64_t end = 0;
  for (int part = 0; part < parts_; ++part) {
    const std::int64_t rows = rows_of(x, microbatch, part);
    move_down(stream, x, part * room, end, rows);
    end += rows;
  }
  const std::int64_t rest = rows_in_use(x, microbatch) - end;
  if (rest > 0) stream.device().ops().fill_zero(stream, row_view(x, end, rest));
}

void LaneRows::spread(Stream& stream, const Tensor& tensor, int microbatch) const {
  if (!are_apart()) return;
  const Tensor x = in_rows(tensor);
  const std::int64_t room = x.shape[0] / parts_;
  std::int64_t end = 0;
  for (int part = 0; part < parts_; ++part) end += rows_of(x, microbatch, part);
  for (int part = parts_ - 1; part >= 0; --part) {
    const std::int64_t rows = rows_of(x, microbatch, part);
    end -= rows;
    move_up(stream, x, end, part * room, rows);
  }
}

}  // namespace troupe::actors
