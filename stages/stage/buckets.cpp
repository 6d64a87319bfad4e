#include "stages/stage/buckets.h"

#include <algorithm>

#include "tensor/errors/error.h"

namespace troupe::stages {

std::vector<Seam> expert_seams(const std::vector<bool>& is_expert) {
  if (std::ranges::find(is_expert, true) == is_expert.end()) return {};
  std::vector<Seam> seams(is_expert.size(), Seam::free);
  for (std::size_t i = 1; i < seams.size(); ++i)
    if (is_expert[i] != is_expert[i - 1]) seams[i] = Seam::cut;
  return seams;
}

std::vector<Bucket> cut_into_buckets(std::span<const std::int64_t> offsets, std::int64_t size,
                                     const BucketRule& rule, std::span<const Seam> seams) {
  TROUPE_ASSERT(rule.size == 0 || rule.count == 0);
  TROUPE_ASSERT(rule.size > 0 || rule.count > 0 || !seams.empty());
  const int num_parameters = static_cast<int>(offsets.size());
  const int count = std::min(rule.count, num_parameters);
  std::vector<Bucket> buckets;
  Bucket next{.parameters = {.first = 0, .end = num_parameters}, .begin = 0, .end = size};
  const auto is_full = [&](int first) {
    const Seam seam = seams.empty() ? Seam::free : seams[static_cast<std::size_t>(first)];
    if (first == 0) return true;
    if (next.begin == 0 || next.size() == 0 || seam == Seam::joined) return false;
    if (seam == Seam::cut) return true;
    if (rule.size > 0) return next.size() >= rule.size;
    const int number = static_cast<int>(buckets.size()) + 1;
    const bool each_gets_one = first == count - number;  // as many parameters as buckets are left
    return number < count && (each_gets_one || (size - next.begin) >= size / count * number);
  };
  for (int i = num_parameters - 1; i >= 0; --i) {
    next.parameters.first = i;
    next.begin = offsets[static_cast<std::size_t>(i)];
    if (!is_full(i)) continue;
    buckets.push_back(next);
    next = {.parameters = {.first = 0, .end = i}, .begin = 0, .end = next.begin};
  }
  return buckets;
}

}  // namespace troupe::stages
