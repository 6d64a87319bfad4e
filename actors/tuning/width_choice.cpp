#include "actors/tuning/width_choice.h"

#include <algorithm>
#include <vector>

#include "actors/topology/shape_rules.h"
#include "actors/tuning/layer_times.h"

namespace troupe::actors {
namespace {

/// More replicas than so many times those of now are not looked for.
constexpr int kMostTimes = 4;

/// The time that the actions of each stage take in a step.
std::vector<double> busy_of(const ClusterShape& shape, const schedules::Plan& plan,
                            const Measured& measured) {
  std::vector<double> busy;
  for (int stage = 0; stage < shape.mesh.pp; ++stage) {
    double& seconds = busy.emplace_back();
    for (const auto& action : plan.actions[static_cast<std::size_t>(stage)])
      seconds += measured.chunks[static_cast<std::size_t>(action.chunk)].of(action.op);
  }
  return busy;
}

/// The shape with more replicas of a stage, as few as can be; none if there is no such shape.
std::optional<ClusterShape> widened(const RunSpec& spec, const ClusterShape& current, int stage) {
  for (int times = 2; times <= kMostTimes; ++times) {
    ClusterShape shape = current;
    std::vector<RunSpec::Width> widths;
    for (int s = 0; s < shape.mesh.pp; ++s) widths.push_back(shape.mesh.width(s));
    widths[static_cast<std::size_t>(stage)].dp *= times;
    shape.mesh.set_widths(std::move(widths));
    if (shares_evenly(spec.batch, shape.mesh.dp) &&
        fault_of_widths(shape.mesh, shape.schedule).empty() &&
        fault_of_schedule(spec.batch, shape.mesh, shape.schedule).empty())
      return shape;
  }
  return std::nullopt;
}

/// The times of actions whose microbatches have other numbers of samples.
Measured with_samples_of(const ClusterShape& shape, const ClusterShape& measured_in,
                         Measured measured) {
  for (std::size_t chunk = 0; chunk < measured.chunks.size(); ++chunk) {
    const int stage = measured_in.layout.chunks[chunk].stage;
    const auto now = static_cast<double>(measured_in.mesh.micro_of(stage, 1));
    const double times = static_cast<double>(shape.mesh.micro_of(stage, 1)) / now;
    for (double& seconds : measured.chunks[chunk].seconds) seconds *= times;
  }
  return measured;
}

double simulated(const RunSpec& spec, const ClusterShape& shape, const Measured& measured) {
  const StepSimulation step(spec, shape, layer_times(shape.layout, measured), measured.hop_s);
  return step.simulated(shape.layout);
}

}  // namespace

std::optional<WidthChoice> choose_width(const RunSpec& spec, const ClusterShape& current,
                                        const Measured& measured) {
  if (current.mesh.pp == 1 || current.schedule.kind == "csv") return std::nullopt;
  const auto busy = busy_of(current, make_plan(with_shape(spec, current)), measured);
  const int slowest = static_cast<int>(std::ranges::max_element(busy) - busy.begin());
  const auto wider = widened(spec, current, slowest);
  if (!wider) return std::nullopt;
  return WidthChoice{
      .stage = slowest,
      .dp = wider->mesh.width(slowest).dp,
      .now_s = simulated(spec, current, measured),
      .wider_s = simulated(spec, *wider, with_samples_of(*wider, current, measured))};
}

}  // namespace troupe::actors
