#pragma once

#include <cstdint>

namespace troupe::tensor {

/// Consecutive query positions of the heads that share one key-value head. Row r of its matrices is
/// position first + r / group, head r % group; the columns are the keys that some row may see.
struct QueryBlock {
  std::int64_t first = 0;
  std::int64_t positions = 0;
  std::int64_t group = 1;
  std::int64_t head_dim = 0;
  std::int64_t columns = 0;
  bool causal = true;

  std::int64_t rows() const { return positions * group; }
  /// The columns, from the first on, that the rows of the block's p-th position may see.
  std::int64_t seen(std::int64_t p) const { return causal ? first + p + 1 : columns; }
};

}  // namespace troupe::tensor
