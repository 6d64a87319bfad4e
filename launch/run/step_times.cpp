#include "launch/run/step_times.h"

#include "actors/tuning/step_meter.h"

namespace troupe::launch {

/// The first step of a launch or shape includes its start, so it counts only until there is
/// another.
void StepTimes::add(double step_s) {
  if (starting_ && !newest_.empty()) {
    newest_.clear();
    starting_ = false;
  }
  newest_.push_back(step_s);
  if (newest_.size() > kNewest) newest_.pop_front();
}

void StepTimes::forget_earlier() {
  while (newest_.size() > 1) newest_.pop_front();
  starting_ = true;
}

double StepTimes::left_s(std::int64_t steps) const {
  return static_cast<double>(steps) * actors::median({newest_.begin(), newest_.end()});
}

}  // namespace troupe::launch
