#include "actors/gain_check.h"

#include <fmt/format.h>

#include "actors/step_meter.h"

namespace troupe::actors {

double gain_percent(double old_step_s, double step_s) {
  return old_step_s > 0 ? 100 * (1 - step_s / old_step_s) : 0;
}

std::optional<std::string> GainCheck::stepped(double seconds) {
  steps_.push_back(seconds);
  if (steps_.size() <= StepMeter::kSteps) return std::nullopt;
  const double step_s = median({steps_.begin() + 1, steps_.end()});
  return fmt::format(
      "a step of {} takes {:.2f} ms, predicted {:.2f}; measured gain {:.1f} %, predicted {:.1f} %",
      promise_.name, step_s * 1e3, promise_.step_s * 1e3, gain_percent(promise_.old_step_s, step_s),
      gain_percent(promise_.old_step_s, promise_.step_s));
}

}  // namespace troupe::actors
