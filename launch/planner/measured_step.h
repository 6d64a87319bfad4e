#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "launch/planner/prediction.h"

namespace troupe::launch {

/// What steps of a run took, as a prediction divides it: medians over steps of means over ranks, in
/// seconds. What is not known is NaN.
struct MeasuredStep {
  std::int64_t steps = 0;  ///< that were measured
  double step_s = 0;
  double tokens_per_s = 0;
  double mfu = 0;
  double compute_s = 0;
  double waits_s = 0;  ///< for other stages: the bubble, and messages
  double shards_s = 0;
  double replicas_s = 0;
  /// The optimizer, and all that has no other name.
  double rest_s() const { return step_s - compute_s - waits_s - shards_s - replicas_s; }
};

/// A part of a step, predicted and measured.
struct ComparedPart {
  std::string name;
  double predicted = 0;
  double measured = 0;
};
/// The parts of which both are known, in seconds, after the whole step.
std::vector<ComparedPart> compared(const Prediction& prediction, const MeasuredStep& measured);

nlohmann::json to_json(const MeasuredStep& measured);
/// A table with a line for each part.
std::string to_text(const std::vector<ComparedPart>& parts, const MeasuredStep& measured);

}  // namespace troupe::launch
