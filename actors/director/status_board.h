#pragma once

#include <mutex>

#include "actors/topology/reports.h"

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

 private:
  mutable std::mutex mutex_;
  RunStatus status_;
};

}  // namespace troupe::actors
