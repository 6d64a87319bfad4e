#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe::tensor {

/// Calls body(begin, end) for contiguous ranges that cover [0, count), one range per OpenMP thread.
/// Ranges start at multiples of `grain`; a count within one grain runs in the calling thread alone.
/// body must not throw.
template <typename Body>
void parallel_ranges(int threads, std::int64_t count, std::int64_t grain, const Body& body) {
  const std::int64_t grains = (count + grain - 1) / grain;
  if (threads == 1 || grains <= 1) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  const std::int64_t parts = std::min<std::int64_t>(threads, grains);
#pragma omp parallel for num_threads(threads) schedule(static, 1)
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t begin = grains * part / parts * grain;
    const std::int64_t end = std::min(count, grains * (part + 1) / parts * grain);
    body(begin, end);
  }
}

/// parallel_ranges() of a function that takes the range after its other arguments.
template <typename Function, typename... Arguments>
void call_for_ranges(int threads, std::int64_t count, std::int64_t grain, const Function& function,
                     const Arguments&... arguments) {
  parallel_ranges(threads, count, grain, [&](std::int64_t begin, std::int64_t end) {
    function(arguments..., begin, end);
  });
}

/// Sum of body(begin, end) over ranges of [0, count). The ranges depend on count alone and are
/// added in ascending order, so that any number of threads gives the same bits.
template <typename Body>
double parallel_sum(int threads, std::int64_t count, const Body& body) {
  constexpr std::int64_t kMaxRanges = 256;
  const std::int64_t length = (count + kMaxRanges - 1) / kMaxRanges;
  double sums[kMaxRanges] = {};
  parallel_ranges(threads, kMaxRanges, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t begin = std::min(count, i * length);
      const std::int64_t end = std::min(count, begin + length);
      if (begin < end) sums[i] = body(begin, end);
    }
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace troupe::tensor
