#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "actors/topology/configuration.h"
#include "actors/topology/state/copy_ring.h"
#include "schedules/analysis/validate.h"
#include "schedules/plan/plan.h"
#include "stages/decoder/stage/transformer_stage.h"
#include "stages/replicas/tied_sums.h"
#include "transport/edges/channel.h"

namespace troupe::actors {

/// What a shape means for the whole cluster. Director and workers derive it from the same (spec,
/// shape) and compare digests before the first step.
struct Assembly {
  schedules::Plan plan;                              ///< training, in order
  schedules::Plan eval_plan;                         ///< forward only
  std::vector<schedules::ChunkCapacity> capacities;  ///< by chunk, enough for both plans
  /// Hash of plans, layer layout, capacities, shards, recompute, edge shape and dtype.
  std::uint64_t digest = 0;
};
Assembly assemble(const RunSpec& spec, const ClusterShape& shape);

/// What one rank does and holds in an assembly.
struct RankAssembly {
  RankPlace place;
  stages::StageSpec stage;
  std::vector<int> chunks;  ///< pipeline-wide numbers of stage.chunks, ascending
  std::vector<schedules::Action> actions;
  std::vector<schedules::Action> eval_actions;
  int num_ahead = 0;              ///< schedules::actions_ahead()
  std::vector<int> inputs_ahead;  ///< schedules::inputs_ahead()
  std::vector<transport::Edge> edges;
  std::vector<int> tied_ranks;  ///< tied_ranks_of()
  /// tied_parts_of(), if exchanges_tied_sums(); else empty.
  stages::TiedParts tied_parts;
  std::vector<int> mirror_ranks;   ///< the rank and its mirror_of(), ascending; empty without one
  std::vector<int> replica_ranks;  ///< ranks of the same shard in all replicas; empty if dp is 1
  std::vector<int> shard_ranks;    ///< ranks of the stage's shards in order; empty if tp is 1
  /// Ranks of the stage's shards that share key and value heads with this one; empty if none does.
  std::vector<int> kv_head_ranks;
};
/// Ranks of the embedding and of the head, if these share a matrix and lie on two stages, of which
/// the rank at `place` has one; else empty. They are those of the same replica and shard. If the
/// two stages have not as many replicas, they are those of all replicas, first the embedding's, and
/// the sum over them is that over replicas too, unless what they keep of two sums is exchanged
/// (exchanges_tied_sums()). If they have not as many shards, they are those of all shards too.
std::vector<int> tied_ranks_of(const RunSpec& spec, const ClusterShape& shape, RankPlace place);

RankAssembly part_of(const Assembly& assembly, const RunSpec& spec, const ClusterShape& shape,
                     int rank);
/// A rank's part of a shape, with what recovery needs: its stage keeps its state of the step before
/// and has edges for copies. Where hosts are not known, the ring is that of one host.
RankAssembly part_of_run(const Assembly& assembly, const RunSpec& spec, const ClusterShape& shape,
                         int rank, const CopyRing& ring = {});
/// The replicas that divide training state with the rank: all replica_ranks, or its instance.
std::vector<int> sharing_ranks(const RankAssembly& part);
/// Whether no replica before this one keeps all that it keeps: it saves, and tells, what it has.
bool is_first_holder(const RankAssembly& part);
/// Whether that is so of a parameter.
bool is_told_of(const RankAssembly& part, const stages::Parameter& parameter);
/// The replica_ranks that keep the same slices, one in each instance; empty if there is one
/// instance.
std::vector<int> instance_ranks(const RankAssembly& part);
/// The sharing_ranks() that hold the same experts; empty if none but the rank itself does, and if
/// all hold all.
std::vector<int> expert_sharing_ranks(const RankAssembly& part);
/// The ranks of neighbouring replicas that share out the experts with it, in order; empty if each
/// holds all.
std::vector<int> expert_ranks(const RankAssembly& part);
/// Ranks with which the rank exchanges anything in a step; its own may be among them.
std::set<int> peers_of(const RankAssembly& part);

}  // namespace troupe::actors
