#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/values/shape.h"

namespace troupe::tensor {

/// A rectangle of a matrix's elements, such as a shard's slice of a parameter. A vector of n
/// elements counts as a matrix of n rows and one column.
struct Region {
  std::int64_t row = 0;  ///< the first one
  std::int64_t rows = 0;
  std::int64_t column = 0;  ///< the first one
  std::int64_t columns = 0;

  std::int64_t num_elements() const { return rows * columns; }
  bool operator==(const Region&) const = default;
};

/// All of a vector or matrix.
inline Region whole(const Shape& shape) {
  return {.rows = shape[0], .columns = shape.rank() > 1 ? shape[1] : 1};
}

/// The elements that both regions have; without rows and columns if there are none.
inline Region intersection(const Region& a, const Region& b) {
  const Region both{.row = std::max(a.row, b.row),
                    .rows = std::min(a.row + a.rows, b.row + b.rows) - std::max(a.row, b.row),
                    .column = std::max(a.column, b.column),
                    .columns = std::min(a.column + a.columns, b.column + b.columns) -
                               std::max(a.column, b.column)};
  return both.rows > 0 && both.columns > 0 ? both : Region{};
}

}  // namespace troupe::tensor
