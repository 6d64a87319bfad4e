#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "actors/topology/reports.h"

namespace troupe::actors {

/// Times the phases of a change of the cluster, from its first sign to the first step after it.
/// Several losses before that step are one change, with the first one's cause.
class RecoveryClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A worker was lost; `sign` is when its last sign of life, or the sign of its death, came.
  /// The seconds from then to this call; none if this change has lost a worker already.
  std::optional<double> lost(Time sign, int rank, const std::string& cause);
  /// The decision is taken: for a change that was ordered, or for none (empty), and why. Not said
  /// where nobody is left to halt.
  void halting(const std::string& order, const std::string& reason);
  void begins();                ///< everybody is there and has stopped
  void reached(double move_s);  ///< all ranks are ready; the slowest took so long for its state
  bool running() const { return begin_.has_value(); }
  /// The first new step is committed: the change is over.
  ChangeReport finish();

 private:
  static Time now() { return std::chrono::steady_clock::now(); }

  std::optional<Time> begin_;
  Time noticed_, decided_, gathered_, reached_;
  ChangeReport report_;
};

}  // namespace troupe::actors
