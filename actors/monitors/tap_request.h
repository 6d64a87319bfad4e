#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::actors {

/// Which tensors of an edge somebody wants to look at: all that fit every field.
struct TapRequest {
  int from = 0;  ///< rank
  int to = 0;    ///< rank
  bool backward = false;
  std::int64_t every = 1;  ///< steps; the k-th fits if every divides k
  int microbatch = -1;     ///< -1: any
  bool only_not_finite = false;
  bool dump = false;  ///< write the tensor into taps/ of the run directory, too

  bool operator==(const TapRequest&) const = default;
};
/// More at once are refused.
inline constexpr std::size_t kMaxTaps = 16;

}  // namespace troupe::actors
