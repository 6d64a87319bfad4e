#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "actors/protocol/protocol_events.h"

namespace troupe::actors {

/// The failures of workers: how many within the last hour, and the last one that a worker reported.
class WorkerFailures {
 public:
  /// Adds a failure at this time of the monotonic clock, which never goes back.
  void add(double now_s);
  int num_in_last_hour() const { return static_cast<int>(times_.size()); }

  /// Notes a failure that a worker reports when `reached` is the newest step that was ever
  /// committed. True if the failure before had the same message and no new step was committed
  /// since: it would come again with every attempt.
  bool repeats(const WorkerFailed& failure, std::int64_t reached);

  /// The failure that may be a consequence of another one, which is waited for; none if none is.
  const std::optional<WorkerFailed>& symptom() const { return symptom_; }
  void wait_for_cause_of(const WorkerFailed& symptom) { symptom_ = symptom; }
  void forget_symptom() { symptom_.reset(); }

 private:
  std::deque<double> times_;  // times of failures in the last hour, ascending
  struct Reported {
    std::string message;
    std::int64_t reached = 0;
  };
  std::optional<Reported> last_;
  std::optional<WorkerFailed> symptom_;
};

}  // namespace troupe::actors
