#pragma once

#include <cstdint>

namespace troupe::tensor {

/// Consecutive query positions of the heads that share one key-value head. Row r of its matrices is
/// position first + r / group, head r % group; that row sees the first (position + 1) of the
/// columns.
struct QueryBlock {
  std::int64_t first = 0;
  std::int64_t positions = 0;
  std::int64_t group = 1;
  std::int64_t head_dim = 0;

  std::int64_t rows() const { return positions * group; }
  std::int64_t columns() const { return first + positions; }
};

}  // namespace troupe::tensor
