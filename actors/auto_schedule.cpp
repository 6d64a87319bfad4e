#include "actors/auto_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace troupe::actors {
namespace {

using schedules::Op;

constexpr double kMillisecond = 1e-3;
/// Of the candidates that people are told of.
constexpr std::size_t kTold = 3;

double gain(double old_step_s, double step_s) {
  return old_step_s > 0 ? 100 * (1 - step_s / old_step_s) : 0;
}

std::string times_text(const Measured& measured) {
  const auto busiest = std::ranges::max_element(
      measured.stages, {}, [](const ActionTimes& t) { return t.of(Op::F) + t.of(Op::B); });
  return fmt::format(
      "steps {}-{} took {:.2f} ms, the busiest stage F {:.3f}, B {:.3f}, I {:.3f}, W {:.3f} ms, a "
      "hop {:.3f} ms",
      measured.first_step, measured.last_step, measured.step_s / kMillisecond,
      busiest->of(Op::F) / kMillisecond, busiest->of(Op::B) / kMillisecond,
      busiest->of(Op::I) / kMillisecond, busiest->of(Op::W) / kMillisecond,
      measured.hop_s / kMillisecond);
}

std::string ranking_text(const std::vector<Candidate>& all) {
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i < kTold || all[i].shape.schedule.kind == "1f1b")
      text += fmt::format("{}{} {:.2f}", text.empty() ? "" : ", ", all[i].shape.schedule.kind,
                          all[i].step_s / kMillisecond);
  return text;
}

}  // namespace

void AutoSchedule::begin(const Epoch& epoch) {
  epoch_ = epoch;
  meter_.reset();
  steps_after_.clear();
  if (epoch.shape.schedule.kind == kAutoSchedule)
    meter_.emplace(epoch.shape);  // an order may stand already: that is said again
  else if (chosen_ && chosen_->shape != epoch.shape)
    chosen_.reset();  // something else came of it
}

std::optional<AutoSchedule::Advice> AutoSchedule::traced(const TracedActions& actions) {
  if (actions.epoch != epoch_.number || !meter_) return std::nullopt;
  meter_->add(actions);
  return decide();
}

std::optional<AutoSchedule::Advice> AutoSchedule::stepped(std::uint32_t epoch, std::int64_t step,
                                                          double seconds) {
  if (epoch != epoch_.number) return std::nullopt;
  if (meter_) {
    meter_->add(step, seconds);
    return decide();
  }
  // Until the order is carried out, steps are still the old ones.
  return chosen_ && chosen_->shape == epoch_.shape ? compare(seconds) : std::nullopt;
}

std::optional<AutoSchedule::Advice> AutoSchedule::decide() {
  const auto measured = meter_->result();
  if (!measured) return std::nullopt;
  meter_.reset();
  const auto all = candidates(spec_, epoch_.shape, *measured);
  const Candidate& best =
      choose(all, [this](const Shape& next) { return fits_(epoch_.shape, next); });
  chosen_ = {.shape = best.shape, .step_s = best.step_s, .old_step_s = measured->step_s};
  ScaleRequest order;
  order.schedule = best.shape.schedule.kind;
  return Advice{.text = fmt::format("auto: {}; of {} schedules, in ms a step: {}; takes {}, "
                                    "predicted gain {:.1f} %",
                                    times_text(*measured), all.size(), ranking_text(all),
                                    best.shape.schedule.kind, gain(measured->step_s, best.step_s)),
                .order = order};
}

/// Once as many steps as were measured have run under the schedule that was chosen, but the first.
std::optional<AutoSchedule::Advice> AutoSchedule::compare(double seconds) {
  steps_after_.push_back(seconds);
  if (steps_after_.size() <= StepMeter::kSteps) return std::nullopt;
  const double step_s = median({steps_after_.begin() + 1, steps_after_.end()});
  const Chosen chosen = *std::exchange(chosen_, std::nullopt);
  return Advice{.text = fmt::format("auto: a step of {} takes {:.2f} ms, predicted {:.2f}; "
                                    "measured gain {:.1f} %, predicted {:.1f} %",
                                    chosen.shape.schedule.kind, step_s / kMillisecond,
                                    chosen.step_s / kMillisecond, gain(chosen.old_step_s, step_s),
                                    gain(chosen.old_step_s, chosen.step_s)),
                .order = std::nullopt};
}

}  // namespace troupe::actors
