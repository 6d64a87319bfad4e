#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "actors/topology/configuration.h"
#include "launch/host/quantities.h"
#include "launch/manifest/inputs/placement.h"
#include "launch/manifest/resolve/resolve.h"
#include "launch/manifest/resolve/run_spec.h"
#include "launch/web/command_handler.h"
#include "schedules/plan/counted.h"

namespace troupe::launch {
namespace {

/// A cluster on paper.
struct Paper {
  actors::ClusterShape shape;
  Placement placement;

  explicit Paper(const actors::RunSpec& spec)
      : shape(actors::first_shape(spec)), placement(place(spec)) {}

  std::int64_t fullest() const {
    std::int64_t most = 0;
    for (const RankPlacement& rank : placement.ranks) most = std::max(most, rank.memory.total());
    return most;
  }
  int num_ranks() const { return shape.mesh.num_ranks(); }
  /// Time of a step in units of the work of all layers on one microbatch: a chunk has an equal part
  /// of them, and its shards share that. Ranks that share cores take turns, so that a step takes no
  /// less than all that is computed, over the cores.
  double step(int cores, int threads) const {
    const auto parts = static_cast<double>(placement.plan.num_chunks() * shape.mesh.tp);
    const auto& busy = placement.simulation.busy;
    const double all =
        std::accumulate(busy.begin(), busy.end(), 0.0) * shape.mesh.dp * shape.mesh.tp * threads;
    return std::max(placement.simulation.wall, all / std::max(1, cores)) / parts;
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
