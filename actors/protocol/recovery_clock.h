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

  /// Notes that a worker was lost. `sign` is the time of its last sign of life, or of the sign of
  /// its death. Returns the seconds from then to this call; none if this change has lost a worker
  /// already.
  std::optional<double> lost(Time sign, int rank, const std::string& cause);
  /// Notes that the director has decided, and why. `order` is the ordered change; empty: none. Not
  /// called if no worker is left to halt.
  void halting(const std::string& order, const std::string& reason);
  /// Notes that all workers have joined and halted, and where their state comes from
  /// (ChangeReport::from).
  void begins(const std::string& from);
  /// Notes that all ranks are ready; `move_s` is how long the slowest waited for its state.
  void reached(double move_s);
  bool running() const { return begin_.has_value(); }
  /// Ends the change, because its first step is committed.
  ChangeReport finish();

 private:
  static Time now() { return std::chrono::steady_clock::now(); }

  std::optional<Time> begin_;
  Time noticed_, decided_, gathered_, reached_;
  ChangeReport report_;
};

}  // namespace troupe::actors
