#include "actors/monitors/tensor_summary.h"

#include <algorithm>
#include <cmath>

namespace troupe::actors {
namespace {

/// The exponent of the lower end of bin 1.
constexpr int kLowest = -40;

std::size_t bin_of(double x) {
  if (x == 0) return 0;
  return static_cast<std::size_t>(
      std::clamp(std::ilogb(x) - kLowest + 1, 0, TensorSummary::kBins - 1));
}

template <typename Element>
TensorSummary summary_of(const tensor::Tensor& tensor, Element&& element) {
  TensorSummary summary{.elements = tensor.num_elements()};
  double sum = 0, squares = 0;
  bool any = false;
  for (std::int64_t i = 0; i < summary.elements; ++i) {
    const double x = element(i);
    if (!std::isfinite(x)) {
      ++summary.not_finite;
      continue;
    }
    sum += x;
    squares += x * x;
    summary.min = any ? std::min(summary.min, x) : x;
    summary.max = any ? std::max(summary.max, x) : x;
    any = true;
    ++summary.histogram[bin_of(x)];
  }
  summary.norm = std::sqrt(squares);
  if (any) summary.mean = sum / static_cast<double>(summary.elements - summary.not_finite);
  return summary;
}

}  // namespace

TensorSummary summarise(const tensor::Tensor& tensor) {
  if (tensor.dtype == tensor::DType::bf16) {
    const auto* data = tensor.as<const tensor::BFloat16>();
    return summary_of(tensor, [data](std::int64_t i) { return tensor::to_float(data[i]); });
  }
  const auto* data = tensor.as<const float>();
  return summary_of(tensor, [data](std::int64_t i) { return data[i]; });
}

}  // namespace troupe::actors
