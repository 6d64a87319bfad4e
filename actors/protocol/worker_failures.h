#pragma once

#include <deque>
#include <optional>

#include "actors/protocol/protocol_events.h"

namespace troupe::actors {

/// The failures of workers: how many within the last hour, and the last one that a worker reported.
class WorkerFailures {
 public:
  /// Adds a failure at this time of the monotonic clock, which never goes back.
  void add(double now_s);
  int num_in_last_hour() const { return static_cast<int>(times_.size()); }

  /// Notes a failure that a worker reports. True if the one before had the same message: it would
  /// come again with every attempt.
  bool repeats(const WorkerFailed& failure);

  /// The failure that may be a consequence of another one, which is waited for; none if none is.
  const std::optional<WorkerFailed>& symptom() const { return symptom_; }
  void wait_for_cause_of(const WorkerFailed& symptom) { symptom_ = symptom; }
  void forget_symptom() { symptom_.reset(); }

 private:
  std::deque<double> times_;  // times of failures in the last hour, ascending
  std::optional<WorkerFailed> last_, symptom_;
};

}  // namespace troupe::actors
