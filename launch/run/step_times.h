#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace troupe::launch {

/// Predicts how long the remaining steps will take, from the median of the newest steps, so that a
/// few slow ones among them (held up by a checkpoint, a recovery or a busy machine) do not change
/// the prediction.
class StepTimes {
 public:
  static constexpr std::size_t kNewest = 31;

  void add(double step_s);
  /// Called after the first step of a new cluster shape was added: the steps before it no longer
  /// count.
  void forget_earlier();
  /// The seconds that `steps` steps will take; 0 before the first step.
  double left_s(std::int64_t steps) const;

 private:
  std::deque<double> newest_;
  bool starting_ = true;  ///< no step after the first one of this launch or shape has been added
};

}  // namespace troupe::launch
