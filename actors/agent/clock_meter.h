#pragma once

#include <cstddef>
#include <deque>
#include <optional>

#include "actors/topology/reports/clock_ahead.h"

namespace troupe::actors {

/// A question to another machine and its answer, when each was sent or came.
struct RoundTrip {
  double sent_s = 0;   ///< on this machine's monotonic clock
  double there_s = 0;  ///< when it was answered, on the other machine's
  double back_s = 0;   ///< on this machine's
};

/// Measures how far this machine's monotonic clock is ahead of another's. Either way of a round
/// trip takes some time, which bounds the difference from one side; of the trips in a window the
/// tightest bound from each side counts, so that only those matter that were held up nowhere. A
/// bound loosens with its age, because clocks drift.
class ClockMeter {
 public:
  static constexpr std::size_t kWindow = 64;  ///< round trips
  /// The clocks of two machines drift apart by less, in seconds per second, unless one is being
  /// corrected. Then trips contradict each other, and the newest counts alone.
  static constexpr double kDrift = 1e-4;

  void add(const RoundTrip& trip);
  /// What is known at a time of this machine's clock; none before the first round trip.
  std::optional<ClockAhead> ahead(double now_s) const;

 private:
  struct Bounds {
    double least, most;
  };
  Bounds bounds(double now_s) const;

  std::deque<RoundTrip> trips_;  // oldest first
};

}  // namespace troupe::actors
