#include "tensor/device/linear.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/errors/error.h"

namespace troupe::tensor {

const LinearShape& check(const LinearShape& shape) {
  const auto is_act = [](DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; };
  if (shape.rows < 1 || shape.in < 1 || shape.out < 1) {
    throw Error(ErrorKind::manifest,
                fmt::format("a linear layer of {} rows, {} inputs and {} outputs; each must be at "
                            "least 1",
                            shape.rows, shape.in, shape.out));
  }
  if (!is_act(shape.dtype) || !is_act(shape.output_dtype)) {
    throw Error(ErrorKind::manifest,
                fmt::format("a linear layer of {} with outputs of {}; use float32 or bfloat16",
                            name_of(shape.dtype), name_of(shape.output_dtype)));
  }
  return shape;
}

std::vector<std::int64_t> row_counts(const LinearShape& shape) {
  TROUPE_ASSERT(shape.row_step >= 0);
  TROUPE_ASSERT(shape.row_step == 0 || shape.rows % shape.row_step == 0);
  std::vector<std::int64_t> counts = {shape.rows};
  for (std::int64_t fewer = shape.rows - shape.row_step; shape.row_step > 0 && fewer > 0;
       fewer -= shape.row_step)
    counts.push_back(fewer);
  for (const std::int64_t other : shape.other_rows) {
    TROUPE_ASSERT(other >= 0);
    const bool is_there = std::ranges::find(counts, other) != counts.end();
    if (other > 0 && !is_there) counts.push_back(other);
  }
  return counts;
}

}  // namespace troupe::tensor
