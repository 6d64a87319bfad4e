#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "actors/topology/reports/reports.h"

namespace troupe::actors {

/// Times the phases of a change of the cluster: of an ordered one to the first step of the new
/// shape, of a recovery from the first sign of a loss to the first new step, whatever is lost or
/// ordered on the way. Phases that come again are added up, so that all together are the stall.
class RecoveryClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Notes that a worker was lost; the first loss is the change's cause. `sign` is the time of its
  /// last sign of life, or of the sign of its death. Returns the seconds from then to this call;
  /// none if the loss came before all ranks had got over the one before it.
  std::optional<double> lost(Time sign, int rank, const std::string& cause);
  /// Notes that the director has decided, and why: an order, or else what happened, which counts if
  /// no loss is the cause. Not called if no worker is left to halt.
  void halting(const std::string& order, const std::string& reason);
  /// Notes that all workers have joined and halted, and where their state comes from
  /// (ChangeReport::from).
  void begins(const std::string& from);
  /// Notes that all ranks are ready; `move_s` is how long the slowest waited for its state. The
  /// next step is one that is computed again, or a new one.
  void reached(double move_s, bool catches_up);
  /// Notes that the last step that is computed again is committed.
  void caught_up();
  bool running() const { return begin_.has_value(); }
  /// Ends the change, because its last step is committed.
  ChangeReport finish();

 private:
  static Time now() { return std::chrono::steady_clock::now(); }
  void enter(double RecoveryPhases::*next, Time when);
  bool computes() const;

  std::optional<Time> begin_;
  Time entered_;                             // when the phase began
  double RecoveryPhases::*phase_ = nullptr;  // under way
  ChangeReport report_;
};

}  // namespace troupe::actors
