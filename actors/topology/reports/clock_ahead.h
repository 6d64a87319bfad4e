#pragma once

#include <cmath>

namespace troupe::actors {

/// How far a machine's monotonic clock is ahead of another's; each counts from its machine's start.
struct ClockAhead {
  double seconds = 0;
  double error_s = 0;  ///< by which `seconds` may be wrong

  /// Whether both are numbers that a measurement may have.
  bool is_possible() const {
    return std::isfinite(seconds) && std::isfinite(error_s) && error_s >= 0;
  }
  bool operator==(const ClockAhead&) const = default;
};

}  // namespace troupe::actors
