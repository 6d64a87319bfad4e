#include "actors/auto_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/schedule_choice.h"
#include "actors/schedule_kinds.h"

namespace troupe::actors {
namespace {

using schedules::Op;

constexpr double kMillisecond = 1e-3;
/// Of the candidates that people are told of.
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

}  // namespace

bool AutoSchedule::wants_to_measure() const {
  return shape().schedule.kind == kAutoSchedule && epoch().number != decided_;
}

std::optional<AutoChange::Advice> AutoSchedule::decide(const Measured& measured) {
  decided_ = epoch().number;
  const auto all = candidates(spec(), shape(), measured);
  const Candidate& best = choose(all, [this](const Shape& next) { return fits(next); });
  promise({.name = best.shape.schedule.kind,
           .from = shape(),
           .shape = best.shape,
           .step_s = best.step_s,
           .old_step_s = measured.step_s});
  ScaleRequest order;
  order.schedule = best.shape.schedule.kind;
  order.costs = best.shape.schedule.costs;
  return Advice{
      .text = fmt::format("auto: {}; of {} schedules, in ms a step: {}; takes {}, "
                          "predicted gain {:.1f} %",
                          times_text(measured), all.size(), ranking_text(all),
                          best.shape.schedule.kind, gain_percent(measured.step_s, best.step_s)),
      .order = order};
}

AutoChange::Advice AutoSchedule::judge(const GainCheck::Verdict& verdict) {
  return {.text = "auto: " + verdict.text(), .order = std::nullopt};
}

}  // namespace troupe::actors
