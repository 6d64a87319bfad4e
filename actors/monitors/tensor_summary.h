#pragma once

#include <cstdint>
#include <vector>

#include "tensor/values/tensor.h"

namespace troupe::actors {

/// Statistics of one tensor, over its finite elements and summed in double precision.
struct TensorSummary {
  /// The number of bins of the histogram of magnitudes: bin 0 counts magnitudes below 2^-40 and
  /// zeros, bin i those in [2^(i-41), 2^(i-40)), and the last bin also all larger ones.
  static constexpr int kBins = 64;

  std::int64_t elements = 0;
  std::int64_t not_finite = 0;
  double norm = 0;
  double mean = 0;
  double min = 0;
  double max = 0;
  std::vector<std::uint64_t> histogram = std::vector<std::uint64_t>(kBins);
};

/// Summarises a tensor in host memory.
TensorSummary summarise(const tensor::Tensor& tensor);

}  // namespace troupe::actors
