#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::actors {

/// Which tensors of an edge somebody wants to look at: those that fit every field, in the order in
/// which they are sent, until there were as many as asked for.
struct TapRequest {
  int from = 0;  ///< rank
  int to = 0;    ///< rank
  bool backward = false;
  std::int64_t every = 1;  ///< steps; the k-th fits if every divides k
  int microbatch = -1;     ///< -1: any
  bool only_not_finite = false;
  bool dump = false;         ///< write the tensor into taps/ of the run directory, too
  std::int64_t samples = 0;  ///< so many tensors, then none; 0: without end

  /// Whether such a tensor is asked for, as far as its way tells.
  bool names(int sender, int receiver, bool is_backward, std::int64_t step, int number) const {
    return from == sender && to == receiver && backward == is_backward && every > 0 &&
           step % every == 0 && (microbatch < 0 || microbatch == number);
  }
  bool operator==(const TapRequest&) const = default;
};
/// More at once are refused.
inline constexpr std::size_t kMaxTaps = 16;

}  // namespace troupe::actors
