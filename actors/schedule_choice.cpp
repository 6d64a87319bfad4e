#include "actors/schedule_choice.h"

#include <algorithm>
#include <utility>

#include "actors/scale.h"
#include "schedules/generators.h"
#include "schedules/simulate.h"
#include "tensor/error.h"

namespace troupe::actors {
namespace {

using schedules::Op;

/// A schedule must be faster than 1f1b by this share: less is within what measurements tell.
constexpr double kLeastGain = 0.01;

/// Where the time of the measured stages goes.
struct LayerTimes {
  std::vector<ActionTimes> layer;  ///< by stage: of one decoder layer there
  ActionTimes head;                ///< of the head, wherever it lies
};

LayerTimes by_layer(const Shape& measured_shape, const Measured& measured) {
  LayerTimes out{.layer = measured.stages, .head = {}};
  const std::size_t last = measured.stages.size() - 1;
  for (const Layout::Chunk& chunk : measured_shape.layout.chunks)
    for (double& seconds : out.layer[static_cast<std::size_t>(chunk.stage)].seconds)
      seconds /= chunk.end_layer - chunk.first_layer;
  if (last == 0) return out;
  // The last stage's layers cannot be told from its head: they count as the others'.
  const Layout::Chunk& chunk = measured_shape.layout.chunks.back();
  for (std::size_t op = 0; op < out.head.seconds.size(); ++op) {
    std::vector<double> others;
    for (std::size_t stage = 0; stage < last; ++stage)
      others.push_back(out.layer[stage].seconds[op]);
    double& layer = out.layer[last].seconds[op];
    layer = std::min(layer, median(others));
    out.head.seconds[op] =
        measured.stages[last].seconds[op] - layer * (chunk.end_layer - chunk.first_layer);
  }
  return out;
}

schedules::Costs costs_of(const LayerTimes& times, const Shape& shape, int layers, double hop_s) {
  schedules::Costs costs;
  costs.hop = hop_s;
  for (const Layout::Chunk& chunk : shape.layout.chunks) {
    const ActionTimes& layer = times.layer[static_cast<std::size_t>(chunk.stage)];
    const auto seconds = [&](Op op) {
      return layer.of(op) * (chunk.end_layer - chunk.first_layer) +
             (chunk.end_layer == layers ? times.head.of(op) : 0);
    };
    costs.chunks.push_back({.forward = seconds(Op::F),
                            .input_gradient = seconds(Op::I),
                            .weight_gradient = seconds(Op::W),
                            .backward = seconds(Op::B),
                            .pair = std::nullopt});
  }
  return costs;
}

double simulated(const RunSpec& spec, const Shape& shape, const LayerTimes& times, double hop_s) {
  RunSpec changed = spec;
  changed.mesh = shape.mesh;
  changed.schedule = shape.schedule;
  schedules::Plan plan = make_plan(changed);
  for (auto& row : plan.actions)
    for (auto& action : row) action.overlaps_next = false;  // a stage runs one after the other
  const int layers = static_cast<int>(spec.model.num_hidden_layers);
  const auto simulation = schedules::simulate(plan, costs_of(times, shape, layers, hop_s));
  TROUPE_ASSERT(simulation.has_value());
  return simulation->wall;
}

/// The current mesh with another schedule; none where that has no plan for it.
std::optional<Shape> with_schedule(const RunSpec& spec, const Shape& current,
                                   const schedules::Generator& generator) {
  if (generator.purpose != schedules::Purpose::training || generator.copies != 1)
    return std::nullopt;
  ScaleRequest request;
  request.schedule = std::string(generator.name);
  try {
    return scaled(spec, current, request);
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool is_1f1b(const Candidate& candidate) {
  return candidate.shape.schedule.kind == "1f1b";
}

}  // namespace

std::vector<Candidate> candidates(const RunSpec& spec, const Shape& current,
                                  const Measured& measured) {
  const LayerTimes times = by_layer(current, measured);
  const double beyond =
      std::max(0.0, measured.step_s - simulated(spec, current, times, measured.hop_s));
  std::vector<Candidate> found;
  for (const auto& generator : schedules::generators()) {
    const auto shape = with_schedule(spec, current, generator);
    if (!shape) continue;
    found.push_back(
        {.shape = *shape, .step_s = beyond + simulated(spec, *shape, times, measured.hop_s)});
  }
  std::ranges::stable_partition(found, is_1f1b);
  std::ranges::stable_sort(found, {}, &Candidate::step_s);
  return found;
}

const Candidate& choose(const std::vector<Candidate>& candidates,
                        const std::function<bool(const Shape&)>& fits) {
  const auto plain = std::ranges::find_if(candidates, is_1f1b);
  TROUPE_ASSERT(plain != candidates.end());
  for (const Candidate& candidate : candidates) {
    if (candidate.step_s > (1 - kLeastGain) * plain->step_s) break;
    if (fits(candidate.shape)) return candidate;
  }
  return *plain;
}

}  // namespace troupe::actors
