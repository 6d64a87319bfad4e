#include "launch/report/layout_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "actors/topology/configuration.h"
#include "actors/tuning/layout_choice.h"
#include "actors/tuning/width_choice.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

/// A gain below this share of a step is not worth a word.
constexpr double kWorthIt = 0.01;
/// The same of a gain that takes another process.
constexpr double kWorthARank = 0.05;

bool has_shape(const StepPicture& picture, const actors::ClusterShape& shape) {
  int chunks = 0;
  for (const RankRow& row : picture.predicted)
    for (const TimedAction& a : row.actions) chunks = std::max(chunks, a.action.chunk + 1);
  return std::ssize(picture.predicted) == shape.mesh.pp &&
         chunks == std::ssize(shape.layout.chunks);
}

/// The times of the predicted actions: those of one kind and chunk take the same, their median.
actors::Measured times_of(const StepPicture& picture, const actors::ClusterShape& shape) {
  actors::Measured measured{.chunks = std::vector<actors::ActionTimes>(shape.layout.chunks.size()),
                            .step_s = picture.predicted_s()};
  for (const RankRow& row : picture.predicted)
    for (const TimedAction& a : row.actions)
      measured.chunks[static_cast<std::size_t>(a.action.chunk)].of(a.action.op) =
          a.end_s - a.begin_s;
  return measured;
}

/// What more replicas of the slowest stage would do; empty if little.
std::string width_advice(const actors::RunSpec& spec, const actors::ClusterShape& shape,
                         const actors::Measured& measured) {
  const auto choice = actors::choose_width(spec, shape, measured);
  if (!choice || !(1 - choice->wider_s / choice->now_s >= kWorthARank)) return "";
  return fmt::format(
      " Stage {} is the slowest: with {} replicas of it (troupe scale RUN --stage {} --dp {}) a "
      "step "
      "would be {:.0f} % shorter.",
      choice->stage, choice->dp, choice->stage, choice->dp,
      100 * (1 - choice->wider_s / choice->now_s));
}

}  // namespace

std::string layout_advice(const StepPicture& picture, const actors::RunSpec& spec) {
  const actors::ClusterShape shape = actors::first_shape(spec);
  const std::vector<int> layers = actors::layers_of(shape.layout);
  if (!has_shape(picture, shape) || layers.size() < 2) return "";
  const auto measured = times_of(picture, shape);
  const auto choice = actors::choose_layout(spec, shape, measured,
                                            [](const actors::ClusterShape&) { return true; });
  const double gain = 1 - choice.best.step_s / choice.now.step_s;
  const std::string wider = width_advice(spec, shape, measured);
  if (!(gain >= kWorthIt)) return " No other split of the layers would make it shorter." + wider;
  return fmt::format(
             " With {} instead of {} layers by chunk it would be {:.0f} % shorter; "
             "schedule.auto_layout "
             "moves layers by itself.",
             fmt::join(actors::layers_of(choice.best.shape.layout), ","), fmt::join(layers, ","),
             100 * gain) +
         wider;
}

std::string Advisor::advice(const std::string& shape, const StepPicture& picture) {
  if (!spec_) return "";
  const auto now = std::chrono::steady_clock::now();
  if (made_ && shape == shape_ && now - *made_ < kPeriod) return advice_;
  shape_ = shape;
  made_ = now;
  try {
    advice_ = layout_advice(picture, spec_());
  } catch (const Error&) {
    advice_.clear();
  }
  return advice_;
}

}  // namespace troupe::launch
