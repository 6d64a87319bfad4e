#include <fmt/format.h>

#include <algorithm>

#include "actors/topology/configuration.h"
#include "actors/topology/layers/layer_costs.h"
#include "actors/topology/validation.h"
#include "launch/host/quantities.h"
#include "launch/manifest/inputs/placement.h"
#include "launch/manifest/resolve/resolve.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/web/command_handler.h"
#include "schedules/analysis/simulate.h"
#include "schedules/plan/counted.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

/// A cluster on paper.
struct Paper {
  actors::RunSpec spec;
  actors::ClusterShape shape;
  Placement placement;

  explicit Paper(const actors::RunSpec& of)
      : spec(of), shape(actors::first_shape(of)), placement(place(of)) {}

  std::int64_t fullest() const {
    std::int64_t most = 0;
    for (const RankPlacement& rank : placement.ranks) most = std::max(most, rank.memory.total());
    return most;
  }
  int num_ranks() const { return shape.mesh.num_ranks(); }
  /// Time of a step in units of the forward of all layers on one microbatch (layer_costs()). Ranks
  /// that share cores take turns, so that a step takes no less than all that is computed, over the
  /// cores.
  double step(int cores, int threads) const {
    schedules::Costs costs = actors::layer_costs(spec, shape);
    costs.barrier = actors::barrier_of(spec, shape);
    const auto simulation = schedules::simulate(placement.plan, costs);
    TROUPE_ASSERT(simulation.has_value());  // as that of the placement
    double all = 0;
    for (int stage = 0; stage < shape.mesh.pp; ++stage)
      all += simulation->busy[static_cast<std::size_t>(stage)] * shape.mesh.width(stage).dp *
             shape.mesh.width(stage).tp * threads;
    return std::max(simulation->step, all / std::max(1, cores));
  }
};

}  // namespace

std::string preview_of(const Manifest& now, const actors::ScaleRequest& request,
                       const Machine& machine, double step_s) {
  const actors::RunSpec spec = to_run_spec(now);
  const Paper before(spec);
  const Paper after(
      to_run_spec(with_shape(now, actors::scaled(spec, before.shape, request), machine)));
  std::string text = fmt::format(
      "now: {}\nthen: {}\n"
      "fullest rank: {}, then {}; all ranks: {}, then {}; this machine: {}\n"
      "bubble: {:.1f} %, then {:.1f} %\n",
      to_string(before.shape), to_string(after.shape), bytes_text(before.fullest()),
      bytes_text(after.fullest()), bytes_text(before.placement.total_bytes()),
      bytes_text(after.placement.total_bytes()), bytes_text(machine.memory_bytes),
      100 * before.placement.simulation.bubble_rate, 100 * after.placement.simulation.bubble_rate);
  const int threads = spec.cluster.device.threads, cores = machine.free_cores;
  text += fmt::format(
      "cores: {} x {}, then {} x {}; this machine: {}{}\n",
      schedules::counted(before.num_ranks(), "rank"), schedules::counted(threads, "thread"),
      schedules::counted(after.num_ranks(), "rank"), schedules::counted(threads, "thread"), cores,
      after.num_ranks() * threads > cores ? ", which they will share" : "");
  if (step_s > 0)
    text += fmt::format(
        "step: {}, then about {} if every layer takes as long as now\n", span_text(step_s),
        span_text(step_s * after.step(cores, threads) / before.step(cores, threads)));
  return text;
}

}  // namespace troupe::launch
