#include "actors/tuning/rank_sum.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace troupe::actors {

double chance_of_lower(const std::vector<double>& lower, const std::vector<double>& higher) {
  std::vector<std::pair<double, bool>> all;  // each value, and whether it is one of `lower`
  for (const double x : lower) all.emplace_back(x, true);
  for (const double x : higher) all.emplace_back(x, false);
  std::ranges::sort(all);
  const auto n = static_cast<double>(all.size());
  const auto low = static_cast<double>(lower.size()), high = static_cast<double>(higher.size());
  double rank_sum = 0, ties = 0;  // rank sum of `lower`; equal values have the mean of their ranks
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    while (end < all.size() && all[end].first == all[begin].first) ++end;
    const auto equal = static_cast<double>(end - begin);
    const double rank = static_cast<double>(begin) + (equal + 1) / 2;
    for (std::size_t i = begin; i < end; ++i) rank_sum += all[i].second ? rank : 0;
    ties += equal * (equal * equal - 1);
  }
  const double variance = n > 1 ? low * high / 12 * (n + 1 - ties / (n * (n - 1))) : 0;
  if (variance <= 0) return 1;
  const double expected = low * (n + 1) / 2;
  const double z = (rank_sum - expected + 0.5) / std::sqrt(variance);
  return std::erfc(-z / std::numbers::sqrt2) / 2;
}

}  // namespace troupe::actors
