#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "actors/topology/epoch.h"
#include "schedules/plan.h"
#include "schedules/validate.h"
#include "stages/transformer_stage.h"
#include "transport/channel.h"

namespace troupe::actors {

/// What a shape means for the whole cluster. Director and workers derive it from the same (spec,
/// shape) and compare digests before the first step.
struct Assembly {
  schedules::Plan plan;                              ///< training, in order
  schedules::Plan eval_plan;                         ///< forward only
  std::vector<schedules::ChunkCapacity> capacities;  ///< by chunk, enough for both plans
  /// Over plans, layer layout, capacities, edge shape and dtype.
  std::uint64_t digest = 0;
};
Assembly assemble(const RunSpec& spec, const ClusterShape& shape);

/// One rank's part of an assembly.
struct RankAssembly {
  RankPlace place;
  stages::StageSpec stage;
  std::vector<int> chunks;  ///< pipeline-wide numbers of stage.chunks, ascending
  std::vector<schedules::Action> actions;
  std::vector<schedules::Action> eval_actions;
  std::vector<transport::Edge> edges;
  std::vector<int>
      tied_ranks;  ///< embedding's and head's rank where they share a matrix and differ; else empty
  std::vector<int> mirror_ranks;   ///< this rank and mirror_of() it, ascending; empty without one
  std::vector<int> replica_ranks;  ///< this stage in all replicas; empty without data parallelism
};
RankAssembly part_of(const Assembly& assembly, const RunSpec& spec, const ClusterShape& shape,
                     int rank);
/// A rank's part of a shape, with what recovery needs: its stage keeps its state of the step before
/// and has edges for copies.
RankAssembly part_of_run(const Assembly& assembly, const RunSpec& spec, const ClusterShape& shape,
                         int rank);
/// Ranks that it exchanges anything with in a step, perhaps its own among them.
std::set<int> peers_of(const RankAssembly& part);

}  // namespace troupe::actors
