#pragma once

#include <cstdint>
#include <limits>
#include <map>

#include "tensor/values/tensor.h"

namespace troupe::actors {

/// How the elements of a tensor are spread, over its finite ones and summed in double precision.
/// Histograms of parts of a tensor add up to that of the whole.
struct ValueHistogram {
  /// A power of two has four bins of equal width; magnitudes below 2^-64 count as 0, and those from
  /// 2^64 on lie in the last bin.
  static constexpr int kBins = 512;
  /// The lower end of bin `bin`, from 1 to kBins, of magnitudes; the upper end of the one before.
  static double lower_end(int bin);

  std::int64_t elements = 0;
  std::int64_t not_finite = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double squares = 0;
  /// By bin that is not empty: elements whose magnitude is in it. Those of negative elements are
  /// -kBins ... -1, that of zeros is 0.
  std::map<int, std::uint64_t> counts;

  /// Adds float32 elements in host memory.
  void add(const tensor::Tensor& values);
  void add(const ValueHistogram& part);
};

}  // namespace troupe::actors
