#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "actors/topology/run_spec.h"
#include "launch/report/step_picture.h"

namespace troupe::launch {

/// What another split of the layers would do to a step, in a sentence, as schedule.auto_layout
/// finds it from the times of this one, and in another one what more replicas of the slowest stage
/// would do. `spec` is of the shape that the step had. Empty if the step
/// has no prediction or not that shape, or if layers cannot be split otherwise.
std::string layout_advice(const StepPicture& picture, const actors::RunSpec& spec);

/// Advises on the split of layers. A search may take a second, so that its result stands for a
/// while. For one thread at a time.
class Advisor {
 public:
  static constexpr std::chrono::seconds kPeriod{60};

  /// `spec` gives the run's spec for its current shape; empty: there is no advice.
  explicit Advisor(std::function<actors::RunSpec()> spec) : spec_(std::move(spec)) {}

  /// The advice (layout_advice()) for steps of a shape, of which this is one. Empty if the spec
  /// cannot be had.
  std::string advice(const std::string& shape, const StepPicture& picture);

 private:
  const std::function<actors::RunSpec()> spec_;
  std::string shape_;
  std::string advice_;
  std::optional<std::chrono::steady_clock::time_point> made_;
};

}  // namespace troupe::launch
