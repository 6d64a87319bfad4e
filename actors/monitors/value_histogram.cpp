#include "actors/monitors/value_histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

constexpr int kLowestExponent = -64;

/// The bin of a finite number's magnitude, from its exponent and the first two bits after it.
int bin_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127;
  if (exponent < kLowestExponent) return 0;
  const int quarter = static_cast<int>(bits >> 21 & 3);
  return std::min(4 * (exponent - kLowestExponent) + quarter + 1, ValueHistogram::kBins);
}

}  // namespace

double ValueHistogram::lower_end(int bin) {
  return std::ldexp(1 + (bin - 1) % 4 / 4.0, kLowestExponent + (bin - 1) / 4);
}

void ValueHistogram::add(const tensor::Tensor& values) {
  TROUPE_ASSERT(values.dtype == tensor::DType::f32);
  std::array<std::uint64_t, 2 * kBins + 1> dense{};
  const auto* data = values.as<const float>();
  const std::int64_t count = values.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = data[i];
    if (!std::isfinite(x)) {
      ++not_finite;
      continue;
    }
    const int bin = bin_of(x);
    ++dense[static_cast<std::size_t>(kBins + (std::signbit(x) ? -bin : bin))];
    min = std::min(min, double{x});
    max = std::max(max, double{x});
    sum += x;
    squares += double{x} * x;
  }
  elements += count;
  for (int bin = -kBins; bin <= kBins; ++bin)
    if (const auto in_bin = dense[static_cast<std::size_t>(kBins + bin)]; in_bin > 0)
      counts[bin] += in_bin;
}

void ValueHistogram::add(const ValueHistogram& part) {
  elements += part.elements;
  not_finite += part.not_finite;
  min = std::min(min, part.min);
  max = std::max(max, part.max);
  sum += part.sum;
  squares += part.squares;
  for (const auto& [bin, count] : part.counts) counts[bin] += count;
}

}  // namespace troupe::actors
