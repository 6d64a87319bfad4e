#pragma once

#include <optional>
#include <string>

#include "actors/topology/reports/reports.h"

namespace troupe::actors {

/// Why and how the run ends. Of several reasons for an orderly stop, and of several outcomes, the
/// first one counts.
class RunEnd {
 public:
  /// Orders a stop once what the run is doing is done and saved.
  void stop(const std::string& reason, int exit_code) {
    if (stop_reason_) return;
    stop_reason_ = reason;
    stop_code_ = exit_code;
  }
  const std::optional<std::string>& stop_reason() const { return stop_reason_; }
  int stop_code() const { return stop_code_; }

  /// Notes that a loss or norm was not finite; `why` says which, and in which step. The run ends
  /// once the step before is saved.
  void refuse_step(const std::string& why) {
    if (!refused_step_) refused_step_ = why;
  }
  const std::optional<std::string>& refused_step() const { return refused_step_; }

  /// Notes that the run has failed. It ends once the last committed step is saved.
  void fail(const std::string& why, int exit_code) {
    if (!failure_) failure_ = Failure{.why = why, .exit_code = exit_code};
  }
  struct Failure {
    std::string why;
    int exit_code = 0;
  };
  const std::optional<Failure>& failure() const { return failure_; }

  /// Sets the outcome; the workers are ending.
  void decide(const Outcome& outcome) {
    if (!outcome_) outcome_ = outcome;
  }
  /// Adds to the reason of the outcome, which is decided.
  void add(const std::string& text) { outcome_->reason += text; }
  const std::optional<Outcome>& outcome() const { return outcome_; }

  bool is_near() const { return stop_reason_ || refused_step_ || failure_ || outcome_; }

 private:
  std::optional<std::string> stop_reason_, refused_step_;
  int stop_code_ = 0;
  std::optional<Failure> failure_;
  std::optional<Outcome> outcome_;
};

}  // namespace troupe::actors
