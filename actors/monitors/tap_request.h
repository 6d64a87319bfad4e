#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::actors {

/// A request to look at tensors sent over an edge: those that match every field, in the order in
/// which they are sent, until as many were taken as requested.
struct TapRequest {
  int from = 0;  ///< rank
  int to = 0;    ///< rank
  bool backward = false;
  std::int64_t every = 1;  ///< step interval; step k matches if `every` divides k
  int microbatch = -1;     ///< -1: any
  bool only_not_finite = false;
  bool dump = false;         ///< also write the tensor into taps/ of the run directory
  std::int64_t samples = 0;  ///< number of tensors to take; 0: no limit

  /// Whether a tensor with this sender, receiver, direction, step and microbatch is asked for; its
  /// values are not looked at.
  bool names(int sender, int receiver, bool is_backward, std::int64_t step, int number) const {
    return from == sender && to == receiver && backward == is_backward && every > 0 &&
           step % every == 0 && (microbatch < 0 || microbatch == number);
  }
  bool operator==(const TapRequest&) const = default;
};
/// The largest number of requests at a time; more are refused.
inline constexpr std::size_t kMaxTaps = 16;

}  // namespace troupe::actors
