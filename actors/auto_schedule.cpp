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

void AutoSchedule::begin(const Epoch& epoch) {
  epoch_ = epoch;
  meter_.reset();
  if (epoch.shape.schedule.kind == kAutoSchedule)
    meter_.emplace(epoch.shape);  // an order may stand already: that is said again
  else if (check_ && check_->shape() != epoch.shape)
    check_.reset();  // something else came of it
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
  if (!check_ || check_->shape() != epoch_.shape) return std::nullopt;
  const auto result = check_->stepped(seconds);
  if (!result) return std::nullopt;
  check_.reset();
  return Advice{.text = "auto: " + *result, .order = std::nullopt};
}

std::optional<AutoSchedule::Advice> AutoSchedule::decide() {
  const auto measured = meter_->result();
  if (!measured) return std::nullopt;
  meter_.reset();
  const auto all = candidates(spec_, epoch_.shape, *measured);
  const Candidate& best =
      choose(all, [this](const Shape& next) { return fits_(epoch_.shape, next); });
  check_.emplace(GainCheck::Promise{.name = best.shape.schedule.kind,
                                    .shape = best.shape,
                                    .step_s = best.step_s,
                                    .old_step_s = measured->step_s});
  ScaleRequest order;
  order.schedule = best.shape.schedule.kind;
  order.costs = best.shape.schedule.costs;
  return Advice{
      .text = fmt::format("auto: {}; of {} schedules, in ms a step: {}; takes {}, "
                          "predicted gain {:.1f} %",
                          times_text(*measured), all.size(), ranking_text(all),
                          best.shape.schedule.kind, gain_percent(measured->step_s, best.step_s)),
      .order = order};
}

}  // namespace troupe::actors
