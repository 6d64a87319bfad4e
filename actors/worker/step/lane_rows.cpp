#include "actors/worker/step/lane_rows.h"

#include <algorithm>

#include "tensor/device/ops.h"
#include "tensor/parallel/division.h"

namespace troupe::actors {
namespace {

using tensor::Stream;
using tensor::Tensor;

// Rows move by so many that are fewer than they are themselves: block by block, none over rows that
// are still to be moved. Lanes are multiples of a part of their room, so that there are few blocks.

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

}  // namespace

void LaneRows::gather(Stream& stream, const Tensor& x, int microbatch) const {
  if (!are_apart()) return;
  std::int64_t end = 0;
  for (int lane = 0; lane < lanes_; ++lane) {
    const std::int64_t rows = tokens_.rows_of_lane(microbatch, lane);
    move_down(stream, x, lane * room_, end, rows);
    end += rows;
  }
  const std::int64_t rest = tokens_.documents(microbatch).rows - end;
  if (rest > 0) stream.device().ops().fill_zero(stream, row_view(x, end, rest));
}

void LaneRows::spread(Stream& stream, const Tensor& x, int microbatch) const {
  if (!are_apart()) return;
  std::int64_t end = 0;
  for (int lane = 0; lane < lanes_; ++lane) end += tokens_.rows_of_lane(microbatch, lane);
  for (int lane = lanes_ - 1; lane >= 0; --lane) {
    const std::int64_t rows = tokens_.rows_of_lane(microbatch, lane);
    end -= rows;
    move_up(stream, x, end, lane * room_, rows);
  }
}

}  // namespace troupe::actors
