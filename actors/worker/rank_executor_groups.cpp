#include <utility>

#include "actors/worker/rank_executor.h"
#include "transport/collectives/staged_group.h"

// The groups in which a rank computes with others.

namespace troupe::actors {

void RankExecutor::make_groups(RankConfiguration& now) {
  const Configuration& configuration = now.configuration;
  for (const RankGroup& planned : groups_of(spec_, now.part)) {
    // Groups of one kind have no rank in common, so that the first rank tells them apart.
    const int id =
        static_cast<int>(planned.kind) * configuration.num_ranks() + planned.ranks.front();
    std::vector<int> members;
    for (const int rank : planned.ranks) members.push_back(configuration.members.at(rank).id);
    auto group = node_->make_group(configuration.run, training_configuration(configuration.number),
                                   id, planned.name, members, self_.id, planned.memory);
    now.groups.set(planned.kind, transport::group_for(*device_, std::move(group), planned.name),
                   planned.name);
  }
  {
    const std::lock_guard lock(mutex_);
    groups_ = now.groups.all();
  }
  const auto group = [&](GroupKind kind) { return now.groups.get(kind); };
  const auto named = [&](GroupKind kind) {
    return stages::GradientGroup{.group = group(kind), .name = now.groups.name(kind)};
  };
  using enum GroupKind;
  now.stage().join({.forward = group(shard_forwards),
                    .backward = group(shard_backwards),
                    .gradients = group(shard_gradients),
                    .kv_head = group(kv_head)});
  stages::DataParallelSpec spec = spec_.data_parallel;
  spec.microbatches = static_cast<int>(spec_.batch.microbatches(configuration.shape.mesh.dp));
  now.data_parallel = stages::make_data_parallel(spec, now.stage(),
                                                 {.tied = named(tied),
                                                  .mirror = named(mirror),
                                                  .replicas = named(replicas),
                                                  .instances = named(instances),
                                                  .twins = named(twins),
                                                  .forward_weights = group(forward_weights),
                                                  .backward_weights = group(backward_weights)},
                                                 *device_);
  refuse_if_interrupted(configuration.number);
}

}  // namespace troupe::actors
