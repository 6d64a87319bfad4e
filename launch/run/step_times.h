#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

namespace troupe::launch {

/// How long the steps still to be done will take. It follows the median of the newest steps, so
/// that a few slow ones among them (a checkpoint that held one up, a recovery, a busy machine)
/// change nothing.
class StepTimes {
 public:
  static constexpr std::size_t kNewest = 31;

  void add(double step_s);
  /// The shape of the cluster is another one since the newest step: earlier steps tell nothing.
  void forget_earlier();
  /// Seconds that so many steps will take; 0 before the first step.
  double left_s(std::int64_t steps) const;

 private:
  std::deque<double> newest_;
  bool starting_ = true;  ///< the first step is not followed by another yet
};

}  // namespace troupe::launch
