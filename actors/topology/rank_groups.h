#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/topology/assembly.h"
#include "transport/collectives/collective_memory.h"

namespace troupe::actors {

/// The groups in which a rank computes with others. Those of one kind have no rank in common.
enum class GroupKind {
  tied,             ///< the two stages that use a tied embedding
  replicas,         ///< those that divide the training state of the stage, or all of it
  instances,        ///< those that keep the same slices of it
  twins,            ///< as replicas, for the slices that each keeps for another
  mirror,           ///< the two stages that hold copies of the same layers
  shard_forwards,   ///< the shards of the stage, for collectives of its forwards
  shard_backwards,  ///< for those of its backwards, which may be in any order to them
  shard_gradients,  ///< for sums of gradients that each shard has a part of
  kv_head,          ///< the shards that have the same key and value heads
  forward_weights,  ///< as replicas, for divided weights that forwards gather
  backward_weights,
  expert_forwards,         ///< those that share out the experts, for tokens of forwards
  expert_backwards,        ///< for those of backwards
  expert_replicas,         ///< as replicas, of those that hold the same experts
  expert_forward_weights,  ///< as forward_weights, of those of experts
  expert_backward_weights,
};
inline constexpr std::size_t kNumGroupKinds = 16;

/// A group as its members make it.
struct RankGroup {
  GroupKind kind = GroupKind::tied;
  std::string name;        ///< in reports
  std::vector<int> ranks;  ///< in member order
  transport::CollectiveMemory memory;
};
/// All groups of a rank.
std::vector<RankGroup> groups_of(const RunSpec& spec, const RankAssembly& part);
/// The sets of ranks with which a rank has a group: where devices communicate by themselves, each
/// is one communicator, which takes their memory, however many groups it serves.
int num_communicators(const RunSpec& spec, const RankAssembly& part);
/// The bytes of all of them, if the ranks are on one host.
std::int64_t collectives_bytes(const RunSpec& spec, const RankAssembly& part);

}  // namespace troupe::actors
