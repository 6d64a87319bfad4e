#include "actors/tuning/gain_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "actors/tuning/rank_sum.h"
#include "actors/tuning/step_meter.h"

namespace troupe::actors {
namespace {

/// The numbers of steps after which the test is made. The error probability of each test is such
/// that that of all tests together is at most 1/20 (Bonferroni).
constexpr std::array<std::size_t, 4> kLooks{6, 12, 24, GainCheck::kMostSteps};
constexpr double kMayErr = 0.05;
constexpr double kMayErrOnce = kMayErr / kLooks.size();

}  // namespace

double gain_percent(double old_step_s, double step_s) {
  return old_step_s > 0 ? 100 * (1 - step_s / old_step_s) : 0;
}

std::string GainCheck::Verdict::text() const {
  const double step_s = median(steps), old_step_s = median(predicted.old_steps);
  const std::string sure = fmt::format("with {:.0f} % confidence", 100 * (1 - kMayErr));
  const std::string said = kind == faster   ? "faster " + sure
                           : kind == slower ? "slower " + sure
                                            : "not shown to be faster " + sure;
  return fmt::format(
      "a step of {} takes {:.2f} ms, the median of {}, predicted {:.2f}; before {:.2f} ms, the "
      "median of {}; measured gain {:.1f} %, predicted {:.1f} %: {}",
      predicted.name, step_s * 1e3, steps.size(), predicted.step_s * 1e3, old_step_s * 1e3,
      predicted.old_steps.size(), gain_percent(old_step_s, step_s),
      gain_percent(old_step_s, predicted.step_s), said);
}

std::optional<GainCheck::Verdict> GainCheck::stepped(double seconds) {
  if (std::exchange(is_first_, false)) return std::nullopt;
  steps_.push_back(seconds);
  if (std::ranges::find(kLooks, steps_.size()) == kLooks.end()) return std::nullopt;
  const bool is_faster = chance_of_lower(steps_, predicted_.old_steps) < kMayErrOnce;
  const bool is_slower = chance_of_lower(predicted_.old_steps, steps_) < kMayErrOnce;
  if (!is_faster && !is_slower && steps_.size() < kMostSteps) return std::nullopt;
  return Verdict{.predicted = predicted_,
                 .kind = is_faster   ? Verdict::faster
                         : is_slower ? Verdict::slower
                                     : Verdict::unclear,
                 .steps = steps_};
}

}  // namespace troupe::actors
