#include "launch/web/order_preview.h"

#include <fmt/format.h>

#include <algorithm>

#include "actors/topology/epoch.h"
#include "launch/host/quantities.h"
#include "launch/manifest/placement.h"
#include "launch/manifest/reshape.h"
#include "launch/manifest/run_spec.h"

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
  /// Time of a step in units of the work of all layers on one microbatch: a chunk has an equal part
  /// of them, and its shards share that.
  double step() const {
    const auto parts = placement.plan.num_chunks() * shape.mesh.tp;
    return placement.simulation.wall / static_cast<double>(parts);
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
  if (step_s > 0)
    text += fmt::format(
        "step: {}, then about {} if every layer takes as long as now and each rank has cores of "
        "its "
        "own\n",
        span_text(step_s), span_text(step_s * after.step() / before.step()));
  return text;
}

}  // namespace troupe::launch
