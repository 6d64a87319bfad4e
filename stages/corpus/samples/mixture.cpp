#include "stages/corpus/samples/mixture.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

constexpr double kOne = 4294967296.0;  // 2^32

/// floor(count * part / 2^32 + 1/2), in two halves, because the product has up to 95 bits.
std::int64_t share_of(std::int64_t count, std::uint64_t part) {
  const auto whole = static_cast<std::uint64_t>(count);
  const std::uint64_t low = whole & 0xffffffff;
  return static_cast<std::int64_t>((whole >> 32) * part +
                                   ((low * part + (std::uint64_t{1} << 31)) >> 32));
}

}  // namespace

Mixture::Mixture(std::span<const double> weights) {
  TROUPE_ASSERT(!weights.empty());
  for (std::size_t i = 0; i < weights.size(); ++i)
    splits_.push_back({.source = static_cast<int>(i)});
  const auto weight_of = [weights](const Split& split) {
    return weights[static_cast<std::size_t>(split.source)];
  };
  // With the largest first, an error that is carried on becomes smaller with each split.
  std::ranges::stable_sort(splits_, std::ranges::greater{}, weight_of);
  const double largest = weight_of(splits_.front());
  TROUPE_ASSERT(std::isfinite(largest) && weight_of(splits_.back()) > 0);
  double left = 0;  // weight of this split and those after it, over the largest: no overflow
  for (auto split = splits_.rbegin(); split != splits_.rend(); ++split) {
    const double weight = std::max(weight_of(*split) / largest, std::numeric_limits<double>::min());
    left += weight;
    split->part = static_cast<std::uint64_t>(std::clamp(weight / left * kOne, 1.0, kOne - 1));
  }
}

Mixture::Draw Mixture::operator[](std::int64_t position) const {
  for (std::size_t i = 0; i + 1 < splits_.size(); ++i) {
    const std::int64_t before = share_of(position, splits_[i].part);
    if (share_of(position + 1, splits_[i].part) > before) return {splits_[i].source, before};
    position -= before;
  }
  return {splits_.back().source, position};
}

}  // namespace troupe::stages
