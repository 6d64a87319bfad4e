#include "actors/topology/state/unit_order.h"

#include <map>
#include <utility>

namespace troupe::actors {
namespace {

using Reads = std::vector<std::vector<int>>;  // by node

/// Adds what the nodes read to an order, what a node reads again left out.
void add(const Reads& nodes, std::vector<int>& last, std::vector<int>& order) {
  for (const std::vector<int>& reads : nodes) {
    if (reads.empty() || reads == last) continue;
    order.insert(order.end(), reads.begin(), reads.end());
    last = reads;
  }
}

/// `reads(chunk, pass)`: what the nodes of a pass read.
template <typename ReadsOfPass>
stages::UnitOrder order_of(const Program& program, const ReadsOfPass& reads) {
  stages::UnitOrder order;
  std::vector<int> last_forward, last_backward;
  std::map<std::pair<int, stages::Pass>, Reads> known;
  for (const Instruction& next : program) {
    const std::pair pass(next.chunk, pass_of(next.op));
    auto found = known.find(pass);
    if (found == known.end()) found = known.emplace(pass, reads(pass.first, pass.second)).first;
    if (pass.second == stages::Pass::forward)
      add(found->second, last_forward, order.forward);
    else
      add(found->second, last_backward, order.backward);
  }
  return order;
}

}  // namespace

stages::UnitOrder unit_order(const Program& program, const stages::Stage& stage) {
  return order_of(program, [&](int chunk, stages::Pass pass) {
    Reads reads;
    for (const stages::NodeEffects& node : stage.nodes(chunk, pass))
      reads.emplace_back(node.reads.begin(), node.reads.end());
    return reads;
  });
}

stages::UnitOrder unit_order(const Program& program, const stages::StageSpec& stage) {
  return order_of(
      program, [&](int chunk, stages::Pass pass) { return stages::reads_of(stage, chunk, pass); });
}

ReplicaTraffic replica_traffic(const RunSpec& spec, const ClusterShape& shape,
                               const RankAssembly& part) {
  const auto order = unit_order(compile(part, part.actions), part.stage);
  stages::DataParallelSpec data_parallel = spec.data_parallel;
  data_parallel.microbatches = static_cast<int>(spec.batch.microbatches(shape.mesh.dp));
  return {.collectives = stages::plan_collectives(data_parallel, part.stage, order,
                                                  shape.mesh.width(part.place.stage).dp),
          .gathers = stages::plan_gathers(part.stage, order)};
}

}  // namespace troupe::actors
