#include "actors/auto_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "actors/layout_choice.h"
#include "actors/schedule_kinds.h"

namespace troupe::actors {
namespace {

using schedules::Op;

std::string split_text(const Shape& shape) {
  return fmt::format("{}", fmt::join(layers_of(shape.layout), ","));
}

/// Forward and backward, in ms.
double both_ways(const ActionTimes& times) {
  return 1e3 * (times.of(Op::F) + std::max(times.of(Op::B), times.of(Op::I) + times.of(Op::W)));
}

std::string times_text(const Measured& measured, const LayerTimes& times) {
  std::string layers;
  for (const ActionTimes& layer : times.layer)
    layers += fmt::format("{}{:.3f}", layers.empty() ? "" : ", ", both_ways(layer));
  return fmt::format(
      "steps {}-{} took {:.2f} ms; forth and back, in ms, a layer takes {} by stage, the "
      "embedding {:.3f}, the head {:.3f}",
      measured.first_step, measured.last_step, measured.step_s * 1e3, layers,
      both_ways(times.embedding), both_ways(times.head));
}

}  // namespace

void AutoLayout::begin(const Epoch& epoch) {
  if (epoch.shape != epoch_.shape) told_ = false;
  epoch_ = epoch;
  meter_.reset();
  if (check_ && check_->shape() != epoch.shape) check_.reset();
  measure_if_due();
}

/// One chunk holds all layers, one layer a chunk lies as it lies.
bool AutoLayout::has_choice() const {
  const auto chunks = static_cast<std::int64_t>(layers_of(epoch_.shape.layout).size());
  return spec_.auto_layout.on && epoch_.shape.schedule.kind != kAutoSchedule && chunks > 1 &&
         chunks < spec_.model.num_hidden_layers;
}

void AutoLayout::measure_if_due() {
  if (!meter_ && step_ >= due_ && has_choice()) meter_.emplace(epoch_.shape);
}

std::optional<AutoLayout::Advice> AutoLayout::traced(const TracedActions& actions) {
  if (actions.epoch != epoch_.number || !meter_) return std::nullopt;
  meter_->add(actions);
  return decide();
}

std::optional<AutoLayout::Advice> AutoLayout::stepped(std::uint32_t epoch, std::int64_t step,
                                                      double seconds) {
  if (epoch != epoch_.number) return std::nullopt;
  step_ = step;
  if (meter_) {
    meter_->add(step, seconds);
    return decide();
  }
  measure_if_due();
  // Until the order is carried out, steps are still the old ones.
  if (!check_ || check_->shape() != epoch_.shape) return std::nullopt;
  const auto result = check_->stepped(seconds);
  if (!result) return std::nullopt;
  check_.reset();
  return Advice{.text = "auto_layout: " + *result, .order = std::nullopt};
}

std::optional<AutoLayout::Advice> AutoLayout::decide() {
  const auto measured = meter_->result();
  if (!measured) return std::nullopt;
  meter_.reset();
  due_ = step_ + spec_.auto_layout.steps;
  const LayoutChoice choice =
      choose_layout(spec_, epoch_.shape, *measured,
                    [this](const Shape& next) { return fits_(epoch_.shape, next); });
  const double gain = gain_percent(choice.now.step_s, choice.best.step_s);
  const double least = 100 * spec_.auto_layout.gain;
  const std::string what = fmt::format("auto_layout: {}; ", times_text(*measured, choice.times));
  const std::string split = split_text(choice.best.shape);
  if (gain <= least) {
    if (std::exchange(told_, true)) return std::nullopt;
    const std::string best =
        choice.best.shape == epoch_.shape
            ? "no other is faster"
            : fmt::format("{} would gain {:.1f} %, a move takes more than {:.1f} %", split, gain,
                          least);
    return Advice{.text = what + fmt::format("stays with {}: {}", split_text(epoch_.shape), best),
                  .order = std::nullopt};
  }
  check_.emplace(GainCheck::Promise{.name = "layout " + split,
                                    .shape = choice.best.shape,
                                    .step_s = choice.best.step_s,
                                    .old_step_s = measured->step_s});
  ScaleRequest order;
  order.layout = split;
  return Advice{
      .text = what + fmt::format("layers {} become {}, predicted {:.2f} ms a step, gain "
                                 "{:.1f} %",
                                 split_text(epoch_.shape), split, choice.best.step_s * 1e3, gain),
      .order = order};
}

}  // namespace troupe::actors
