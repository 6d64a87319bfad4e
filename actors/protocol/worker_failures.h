#pragma once

#include <deque>
#include <optional>

#include "actors/protocol/protocol_events.h"

namespace troupe::actors {

/// The failures of workers: how many within the last hour, and the last ones in their own words.
class WorkerFailures {
 public:
  /// One more, at this time of the monotonic clock, which never goes back.
  void add(double now_s);
  int num_in_last_hour() const { return static_cast<int>(times_.size()); }

  /// A worker says that it cannot go on. True if the failure before was the same: it comes again
  /// with every new attempt.
  bool repeats(const WorkerFailed& failure);

  /// A failure that may be the consequence of another one, which is waited for.
  const std::optional<WorkerFailed>& symptom() const { return symptom_; }
  void wait_for_cause_of(const WorkerFailed& symptom) { symptom_ = symptom; }
  void forget_symptom() { symptom_.reset(); }

 private:
  std::deque<double> times_;  // ascending, of the last hour
  std::optional<WorkerFailed> last_, symptom_;
};

}  // namespace troupe::actors
