#include "actors/gain_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/step_meter.h"

namespace troupe::actors {

double gain_percent(double old_step_s, double step_s) {
  return old_step_s > 0 ? 100 * (1 - step_s / old_step_s) : 0;
}

std::string GainCheck::Verdict::text() const {
  return fmt::format(
      "a step of {} takes {:.2f} ms, predicted {:.2f}; measured gain {:.1f} %, predicted {:.1f} %",
      promise.name, step_s * 1e3, promise.step_s * 1e3, gain_percent(promise.old_step_s, step_s),
      gain_percent(promise.old_step_s, promise.step_s));
}

std::optional<GainCheck::Verdict> GainCheck::stepped(double seconds) {
  steps_.push_back(seconds);
  if (steps_.size() <= StepMeter::kSteps) return std::nullopt;
  const std::vector<double> counted(steps_.begin() + 1, steps_.end());
  return Verdict{
      .promise = promise_, .step_s = median(counted), .least_s = std::ranges::min(counted)};
}

}  // namespace troupe::actors
