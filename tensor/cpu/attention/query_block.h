#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe::tensor {

/// Consecutive query positions of the heads that share one key-value head. Row r of its matrices is
/// position first + r / group, head r % group; the columns are the keys from first_key on, all that
/// some row may see among them.
struct QueryBlock {
  std::int64_t first = 0;
  std::int64_t positions = 0;
  std::int64_t group = 1;
  std::int64_t head_dim = 0;
  std::int64_t first_key = 0;
  std::int64_t columns = 0;
  bool causal = true;
  std::int64_t window = 0;  // as AttentionShape's

  std::int64_t rows() const { return positions * group; }
  /// The rows of the block's p-th position may see the columns [hidden(p), seen(p)).
  std::int64_t seen(std::int64_t p) const { return causal ? first + p + 1 - first_key : columns; }
  std::int64_t hidden(std::int64_t p) const {
    return window > 0 ? std::max<std::int64_t>(0, seen(p) - window) : 0;
  }
};

}  // namespace troupe::tensor
