#pragma once

#include <array>
#include <cstdint>

#include "tensor/tensor.h"

namespace troupe::actors {

/// What one tensor looks like. The statistics are of its finite elements, summed in double.
struct TensorSummary {
  /// Magnitudes by power of two: bin 0 holds zeros and what is below 2^-40, bin i magnitudes in
  /// [2^(i-41), 2^(i-40)), the last bin all above.
  static constexpr int kBins = 64;

  std::int64_t elements = 0;
  std::int64_t not_finite = 0;
  double norm = 0;
  double mean = 0;
  double min = 0;
  double max = 0;
  std::array<std::uint64_t, kBins> histogram{};
};

/// Summarises a tensor in host memory.
TensorSummary summarise(const tensor::Tensor& tensor);

}  // namespace troupe::actors
