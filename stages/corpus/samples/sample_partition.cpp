#include "stages/corpus/samples/sample_partition.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "tensor/errors/error.h"

namespace troupe::stages {

SamplePartition::SamplePartition(std::size_t samples, int microbatches)
    : by_length_(samples),
      microbatch_of_(samples),
      loads_(static_cast<std::size_t>(microbatches)),
      dealt_(samples),
      ends_(static_cast<std::size_t>(microbatches)) {}

void SamplePartition::deal(std::span<const Sample> samples) {
  TROUPE_ASSERT(samples.size() == by_length_.size());
  std::iota(by_length_.begin(), by_length_.end(), 0);
  std::ranges::sort(by_length_, [samples](std::int32_t a, std::int32_t b) {
    const std::int64_t of_a = samples[static_cast<std::size_t>(a)].targets;
    const std::int64_t of_b = samples[static_cast<std::size_t>(b)].targets;
    return of_a != of_b ? of_a > of_b : a < b;
  });
  for (std::size_t m = 0; m < loads_.size(); ++m) loads_[m] = {0, static_cast<int>(m)};
  std::ranges::fill(ends_, 0);
  for (std::size_t i = 0; i < by_length_.size(); ++i) {
    std::ranges::pop_heap(loads_, std::greater{});
    Load& lightest = loads_.back();
    microbatch_of_[i] = lightest.second;
    ++ends_[static_cast<std::size_t>(lightest.second)];
    lightest.first += samples[static_cast<std::size_t>(by_length_[i])].targets;
    std::ranges::push_heap(loads_, std::greater{});
  }
  // A counting sort: ends_ holds counts, then where each microbatch begins, then where it ends.
  std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), std::size_t{0});
  for (std::size_t i = 0; i < by_length_.size(); ++i)
    dealt_[ends_[static_cast<std::size_t>(microbatch_of_[i])]++] = by_length_[i];
}

std::span<const std::int32_t> SamplePartition::microbatch(int m) const {
  const auto at = static_cast<std::size_t>(m);
  const std::size_t begin = m == 0 ? 0 : ends_[at - 1];
  return std::span(dealt_).subspan(begin, ends_[at] - begin);
}

}  // namespace troupe::stages
