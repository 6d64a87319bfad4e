#include "actors/tuning/auto_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "actors/topology/schedule_kinds.h"
#include "actors/tuning/layout_choice.h"

namespace troupe::actors {
namespace {

using schedules::Op;

std::string split_text(const ClusterShape& shape) {
  return fmt::format("{}", fmt::join(layers_of(shape.layout), ","));
}

ScaleRequest order_of_layout(const ClusterShape& shape) {
  ScaleRequest order;
  order.layout = split_text(shape);
  return order;
}

/// The time of forward and backward together, in ms.
double both_ways(const ActionTimes& times) {
  return 1e3 * (times.of(Op::F) + std::max(times.of(Op::B), times.of(Op::I) + times.of(Op::W)));
}

std::string times_text(const Measured& measured, const LayerTimes& times) {
  std::string layers;
  for (const ActionTimes& layer : times.layer)
    layers += fmt::format("{}{:.3f}", layers.empty() ? "" : ", ", both_ways(layer));
  return fmt::format(
      "steps {}-{} took {:.2f} ms; forward and backward together, in ms, a layer takes {} by "
      "stage, the embedding {:.3f}, the head {:.3f}",
      measured.first_step, measured.last_step, measured.step_s * 1e3, layers,
      both_ways(times.embedding), both_ways(times.head));
}

}  // namespace

bool AutoLayout::wants_to_measure() const {
  // With one chunk, or with one layer a chunk, there is no other split.
  const auto chunks = static_cast<std::int64_t>(layers_of(shape().layout).size());
  return spec().auto_layout.on && step() >= due_ && shape().schedule.kind != kAutoSchedule &&
         chunks > 1 && chunks < spec().model.num_hidden_layers;
}

std::optional<Tuner::Advice> AutoLayout::decide(const Measured& measured) {
  due_ = step() + spec().auto_layout.steps;
  const LayoutChoice choice =
      choose_layout(spec(), shape(), measured, [this](const ClusterShape& next) {
        return std::ranges::find(taken_back_, next) == taken_back_.end() && fits(next);
      });
  const double gain = gain_percent(choice.now.step_s, choice.best.step_s);
  const double least = 100 * spec().auto_layout.gain;
  const std::string what = fmt::format("auto_layout: {}; ", times_text(measured, choice.times));
  const std::string split = split_text(choice.best.shape);
  if (gain <= least) {
    if (stays_ == shape()) return std::nullopt;
    stays_ = shape();
    const std::string best =
        choice.best.shape == shape()
            ? "no other is faster"
            : fmt::format("{} would gain {:.1f} %, a move takes more than {:.1f} %", split, gain,
                          least);
    return Advice{.text = what + fmt::format("stays with {}: {}", split_text(shape()), best),
                  .order = std::nullopt};
  }
  predict({.name = "layout " + split,
           .from = shape(),
           .shape = choice.best.shape,
           .step_s = choice.best.step_s,
           .old_steps = measured.steps});
  return Advice{
      .text = what + fmt::format("layers {} become {}, predicted {:.2f} ms a step, gain "
                                 "{:.1f} %",
                                 split_text(shape()), split, choice.best.step_s * 1e3, gain),
      .order = order_of_layout(choice.best.shape)};
}

Tuner::Advice AutoLayout::judge(const GainCheck::Verdict& verdict) {
  const std::string text = "auto_layout: " + verdict.text();
  if (verdict.is_gain()) return {.text = text, .order = std::nullopt};
  taken_back_.push_back(verdict.predicted.shape);
  const ClusterShape& old = verdict.predicted.from;
  return {.text = text + "; goes back to " + split_text(old), .order = order_of_layout(old)};
}

}  // namespace troupe::actors
