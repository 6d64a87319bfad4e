#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "actors/protocol/failed_gpus.h"
#include "actors/protocol/protocol_events.h"

namespace troupe::actors {

/// The failures of workers: how many within the last hour, how many attempts in a row to go on have
/// failed, and the last failure that a worker reported.
class WorkerFailures {
 public:
  /// So many attempts in a row may fail before the run ends.
  static constexpr int kMaxAttempts = 5;

  /// Adds a failure at this time of the monotonic clock, which never goes back. Failures of a host
  /// that follow each other within some seconds, or without a committed step between, count once:
  /// they have one cause. The loss of the host itself only counts for nothing if a failure of it
  /// has counted some seconds before. In a run on one machine, `host` is empty and each counts.
  void add(double now_s, const std::string& host = "", bool whole_host = false);
  int num_in_last_hour() const { return static_cast<int>(times_.size()); }

  /// Notes that a worker or connection was lost which belongs to the attempt to go on with this
  /// number: a worker to that for which it was started. `newest` is the number of the attempt under
  /// way; numbers ascend. However many losses one attempt has, it has failed once.
  void lost(std::uint32_t attempt, std::uint32_t newest);
  /// Notes that a step is committed: whoever is lost later has taken part in it, or waits.
  void committed(std::uint32_t newest);
  /// The number of attempts in a row that have failed since the last committed step.
  int num_attempts() const { return num_attempts_; }
  /// How long the next attempt is to wait, in seconds: what the machine lacks now, it may have
  /// later. 0 for the first one, then 1, 2, 4, 8.
  double delay_s() const;
  /// Counts attempts anew.
  void forget_attempts() { num_attempts_ = 0; }

  /// Notes a failure that a worker reports when `reached` is the newest step that was ever
  /// committed. True if the failure before had the same message and no new step was committed
  /// since: it would come again with every attempt.
  bool repeats(const WorkerFailed& failure, std::int64_t reached);

  /// The failure that may be a consequence of another one, which is waited for; none if none is.
  const std::optional<WorkerFailed>& symptom() const { return symptom_; }
  void wait_for_cause_of(const WorkerFailed& symptom) { symptom_ = symptom; }
  void forget_symptom() { symptom_.reset(); }

  FailedGpus& gpus() { return gpus_; }

 private:
  std::deque<double> times_;                  // times of failures in the last hour, ascending
  std::map<std::string, double> counted_on_;  // when a failure of a host was last counted
  std::set<std::string> since_commit_;        // hosts of failures since the last committed step
  int num_attempts_ = 0;
  std::uint32_t counted_ = 0;  // attempts up to this one are counted, or have succeeded
  struct Reported {
    std::string message;
    std::int64_t reached = 0;
  };
  std::optional<Reported> last_;
  std::optional<WorkerFailed> symptom_;
  FailedGpus gpus_;
};

}  // namespace troupe::actors
