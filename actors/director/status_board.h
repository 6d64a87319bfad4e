#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/monitors/hub.h"
#include "actors/topology/reports/reports.h"

namespace troupe::actors {

/// The run's status, written by the director, read by any thread.
class StatusBoard {
 public:
  RunStatus read() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  template <typename Change>
  void write(Change&& change) {
    const std::lock_guard lock(mutex_);
    change(status_);
  }
  using Measured = std::vector<std::shared_ptr<const StepReport::Measured>>;
  /// What each replica measured in the newest step.
  void set_measured(Measured measured) {
    const std::lock_guard lock(mutex_);
    measured_ = std::move(measured);
  }
  Measured measured() const {
    const std::lock_guard lock(mutex_);
    return measured_;
  }

 private:
  mutable std::mutex mutex_;
  RunStatus status_;
  Measured measured_;
};

/// Shows a heartbeat on the status board and publishes it to the monitors, if its sender has a rank
/// in the configuration. `step` is the last committed one.
void show_activity(const Heartbeat& beat, const Configuration& configuration, std::int64_t step,
                   Hub& hub, StatusBoard& board);

}  // namespace troupe::actors
