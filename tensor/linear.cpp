#include "tensor/linear.h"

#include <algorithm>

#include "tensor/error.h"

namespace troupe::tensor {

std::vector<std::int64_t> row_counts(const LinearShape& shape) {
  TROUPE_ASSERT(shape.row_step >= 0 && shape.other_rows >= 0);
  TROUPE_ASSERT(shape.row_step == 0 || shape.rows % shape.row_step == 0);
  std::vector<std::int64_t> counts = {shape.rows};
  for (std::int64_t fewer = shape.rows - shape.row_step; shape.row_step > 0 && fewer > 0;
       fewer -= shape.row_step)
    counts.push_back(fewer);
  const bool is_there = std::ranges::find(counts, shape.other_rows) != counts.end();
  if (shape.other_rows > 0 && !is_there) counts.push_back(shape.other_rows);
  return counts;
}

}  // namespace troupe::tensor
