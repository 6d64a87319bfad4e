#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace troupe::tensor {

/// Counter-based random numbers: each value is a pure function of (seed, name, index), so that every placement of the
/// model draws the same ones. Philox 4x32-10 (Salmon et al., SC'11), keyed by seed and a hash of the name.
class Random {
 public:
  Random(std::uint64_t seed, std::string_view name);
  std::uint64_t bits(std::uint64_t index) const;
  /// In [0, 1), 53 bits.
  double uniform(std::uint64_t index) const;
  /// Standard normal (Box-Muller on values 2*index and 2*index+1).
  double normal(std::uint64_t index) const;

 private:
  std::uint64_t key_;
};

/// x[i] = stddev * Random(seed, name).normal(i), x float32 in host memory.
void fill_normal(const Tensor& x, std::uint64_t seed, std::string_view name, double stddev);

}  // namespace troupe::tensor
