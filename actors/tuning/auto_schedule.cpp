#include "actors/tuning/auto_schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "actors/topology/schedule_kinds.h"
#include "actors/tuning/schedule_choice.h"

namespace troupe::actors {
namespace {

using schedules::Op;

constexpr double kMillisecond = 1e-3;
/// The number of candidates that a message for people lists.
constexpr std::size_t kTold = 3;

std::string times_text(const Measured& measured) {
  const auto busiest = std::ranges::max_element(
      measured.chunks, {}, [](const ActionTimes& t) { return t.of(Op::F) + t.of(Op::B); });
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

ScaleRequest order_of_schedule(const ClusterShape& shape) {
  ScaleRequest order;
  order.schedule = shape.schedule.kind;
  order.costs = shape.schedule.costs;
  return order;
}

/// Whether two shapes are equal except for the measured costs, which differ in every measurement.
bool alike(ClusterShape a, const ClusterShape& b) {
  a.schedule.costs = b.schedule.costs;
  return a == b;
}

}  // namespace

bool AutoSchedule::wants_to_measure() const {
  return shape().schedule.kind == kAutoSchedule && configuration().number != decided_;
}

std::optional<Tuner::Advice> AutoSchedule::decide(const Measured& measured) {
  decided_ = configuration().number;
  const auto all = candidates(spec(), shape(), measured);
  const Candidate& best = choose(all, [this](const ClusterShape& next) {
    return std::ranges::none_of(taken_back_,
                                [&](const ClusterShape& lost) { return alike(lost, next); }) &&
           fits(next);
  });
  plain_ = plain_of(all).shape;
  predict({.name = best.shape.schedule.kind,
           .from = shape(),
           .shape = best.shape,
           .step_s = best.step_s,
           .old_steps = measured.steps});
  return Advice{
      .text = fmt::format("auto: {}; of {} schedules, in ms a step: {}; takes {}, "
                          "predicted gain {:.1f} %",
                          times_text(measured), all.size(), ranking_text(all),
                          best.shape.schedule.kind, gain_percent(measured.step_s, best.step_s)),
      .order = order_of_schedule(best.shape)};
}

Tuner::Advice AutoSchedule::judge(const GainCheck::Verdict& verdict) {
  const std::string text = "auto: " + verdict.text();
  const ClusterShape& chosen = verdict.predicted.shape;
  if (verdict.is_gain() || chosen == plain_) return {.text = text, .order = std::nullopt};
  taken_back_.push_back(chosen);
  return {.text = text + "; goes back to " + plain_->schedule.kind,
          .order = order_of_schedule(*plain_)};
}

}  // namespace troupe::actors
