#pragma once

#include <cstdint>

namespace troupe::tensor {

/// Which elements of a global tensor are dropped, as a pure function: element `index` is kept if
/// word `index` of the random numbers with this key (Random::word) is at least threshold(), and
/// then multiplied by scale(). Nothing is stored between a forward and its backward.
struct Dropout {
  float p = 0;            ///< probability that an element is dropped, in [0, 1)
  std::uint64_t key = 0;  ///< Random::key(); one for each use in a step

  /// p * 2^32.
  std::uint32_t threshold() const {
    return static_cast<std::uint32_t>(static_cast<double>(p) * 0x1p32);
  }
  /// 1 / (1 - p), which keeps the expectation.
  float scale() const { return static_cast<float>(1.0 / (1.0 - static_cast<double>(p))); }
};

}  // namespace troupe::tensor
