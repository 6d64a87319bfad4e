#include <utility>

#include "actors/topology/group_memory.h"
#include "actors/worker/rank_executor.h"
#include "transport/collectives/staged_group.h"

// The groups in which a rank computes with others.

namespace troupe::actors {

void RankExecutor::make_groups(RankConfiguration& now) {
  const Configuration& configuration = now.configuration;
  enum Kind {
    tied,
    replicas,
    instances,
    twins,
    mirror,
    shard_forwards,
    shard_backwards,
    shard_gradients,
    kv_head,
    forward_weights,
    backward_weights
  };
  // Groups of one kind have no rank in common, so that the first rank tells them apart.
  const auto make = [&](Kind kind, const std::string& name, std::vector<int> ranks,
                        const transport::CollectiveMemory& room) {
    std::unique_ptr<tensor::ProcessGroup> group;
    if (ranks.empty()) return group;
    const int id = kind * configuration.num_ranks() + ranks.front();
    for (int& rank : ranks) rank = configuration.members.at(rank).id;
    group = node_->make_group(configuration.run, training_configuration(configuration.number), id,
                              name, ranks, self_.id, room);
    return transport::group_for(*device_, std::move(group), name);
  };
  const RankAssembly& part = now.part;
  const GroupRooms rooms = group_memory(spec_, part);
  const std::string stage = std::to_string(part.place.stage);
  const std::string tied_name = "tied embedding", replicas_name = "replicas of stage " + stage,
                    twins_name = "twins of stage " + stage,
                    instances_name = "instances of stage " + stage;
  std::string mirror_name;
  if (const auto& pair = part.mirror_ranks; !pair.empty())
    mirror_name =
        "copies on ranks " + std::to_string(pair.front()) + " and " + std::to_string(pair.back());
  now.tied = make(tied, tied_name, part.tied_ranks, rooms.tied);
  now.replicas = make(replicas, replicas_name, sharing_ranks(part), rooms.replicas);
  now.instances = make(instances, instances_name, instance_ranks(part), rooms.instances);
  if (part.stage.state.twins) now.twins = make(twins, twins_name, sharing_ranks(part), rooms.twins);
  if (part.stage.state.weights) {
    const std::string weights = "weights of stage " + stage;
    now.forward_weights =
        make(forward_weights, weights + ", forwards", sharing_ranks(part), rooms.forward_weights);
    if (part.stage.state.reshards)
      now.backward_weights = make(backward_weights, weights + ", backwards", sharing_ranks(part),
                                  rooms.backward_weights);
  }
  now.mirror = make(mirror, mirror_name, part.mirror_ranks, rooms.mirror);
  const std::string shards = "shards of stage " + stage;
  now.shard_forwards =
      make(shard_forwards, shards + ", forwards", part.shard_ranks, rooms.shard_forwards);
  now.shard_backwards =
      make(shard_backwards, shards + ", backwards", part.shard_ranks, rooms.shard_backwards);
  if (part.stage.sharding.sequence_parallel)
    now.shard_gradients =
        make(shard_gradients, shards + ", gradients", part.shard_ranks, rooms.shard_gradients);
  now.kv_head = make(kv_head, shards + ", key and value heads", part.kv_head_ranks, rooms.kv_head);
  {
    const std::lock_guard lock(mutex_);
    groups_.clear();
    for (const auto* group : {&now.tied, &now.mirror, &now.replicas, &now.instances, &now.twins,
                              &now.forward_weights, &now.backward_weights, &now.shard_forwards,
                              &now.shard_backwards, &now.shard_gradients, &now.kv_head})
      if (*group) groups_.push_back(group->get());
  }
  now.stage().join({.forward = now.shard_forwards.get(),
                    .backward = now.shard_backwards.get(),
                    .gradients = now.shard_gradients.get(),
                    .kv_head = now.kv_head.get()});
  stages::DataParallelSpec spec = spec_.data_parallel;
  spec.microbatches = static_cast<int>(spec_.batch.microbatches(configuration.shape.mesh.dp));
  now.data_parallel = stages::make_data_parallel(
      spec, now.stage(),
      {.tied = {.group = now.tied.get(), .name = tied_name},
       .mirror = {.group = now.mirror.get(), .name = mirror_name},
       .replicas = {.group = now.replicas.get(), .name = replicas_name},
       .instances = {.group = now.instances.get(), .name = instances_name},
       .twins = {.group = now.twins.get(), .name = twins_name},
       .forward_weights = now.forward_weights.get(),
       .backward_weights = now.backward_weights.get()},
      *device_);
  refuse_if_interrupted(configuration.number);
}

}  // namespace troupe::actors
