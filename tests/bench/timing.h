#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

namespace troupe::bench {

/// Wall-clock seconds that a call takes.
template <typename Call>
double seconds_of(Call&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The median; for an even number of values the upper one of the middle two. `values` is not empty.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace troupe::bench
