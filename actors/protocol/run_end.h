#pragma once

#include <optional>
#include <string>

#include "actors/topology/reports.h"

namespace troupe::actors {

/// Why and how the run ends. The first reason for an orderly stop stands, and so does the first
/// outcome.
class RunEnd {
 public:
  /// The run stops once what it is doing is done and saved.
  void stop(const std::string& reason, int exit_code) {
    if (stop_reason_) return;
    stop_reason_ = reason;
    stop_code_ = exit_code;
  }
  const std::optional<std::string>& stop_reason() const { return stop_reason_; }
  int stop_code() const { return stop_code_; }

  /// A loss or norm was not finite: which, and in which step. The run ends once the step before is
  /// saved.
  void refuse_step(const std::string& why) { refused_step_ = why; }
  const std::optional<std::string>& refused_step() const { return refused_step_; }

  /// Decided; the workers are ending.
  void decide(const Outcome& outcome) {
    if (!outcome_) outcome_ = outcome;
  }
  const std::optional<Outcome>& outcome() const { return outcome_; }

  bool is_near() const { return stop_reason_ || refused_step_ || outcome_; }

 private:
  std::optional<std::string> stop_reason_, refused_step_;
  int stop_code_ = 0;
  std::optional<Outcome> outcome_;
};

}  // namespace troupe::actors
