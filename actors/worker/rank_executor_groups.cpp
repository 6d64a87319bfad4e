#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "actors/topology/stage_devices.h"
#include "actors/worker/rank_executor.h"
#include "tensor/errors/error.h"
#include "transport/collectives/changing_group.h"

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
    const bool among_kinds = differ_in_device(spec_, configuration.shape.mesh, planned.ranks);
    const auto make = among_kinds ? transport::group_among_kinds : transport::group_for;
    now.groups.set(planned.kind, make(*device_, std::move(group), planned.name), planned.name);
  }
  {
    const std::lock_guard lock(mutex_);
    groups_ = now.groups.all();
  }
  begin_own_groups(now);
  const auto group = [&](GroupKind kind) { return now.groups.get(kind); };
  const auto named = [&](GroupKind kind) {
    return stages::GradientGroup{.group = group(kind), .name = now.groups.name(kind)};
  };
  using enum GroupKind;
  now.stage().join(
      {.forward = group(shard_forwards),
       .backward = group(shard_backwards),
       .gradients = group(shard_gradients),
       .kv_head = group(kv_head),
       .experts = {.forward = group(expert_forwards), .backward = group(expert_backwards)}});
  stages::DataParallelSpec spec = spec_.data_parallel;
  spec.microbatches = static_cast<int>(spec_.batch.microbatches(configuration.shape.mesh.dp));
  now.data_parallel = stages::make_data_parallel(
      spec, now.stage(),
      {.tied = named(tied),
       .tied_sums_replicas = now.part.tied_parts.empty() && now.part.tied_ranks.size() > 2,
       .tied_parts = now.part.tied_parts,
       .mirror = named(mirror),
       .replicas = named(replicas),
       .instances = named(instances),
       .twins = named(twins),
       .forward_weights = group(forward_weights),
       .backward_weights = group(backward_weights),
       .experts = named(expert_replicas),
       .expert_forward_weights = group(expert_forward_weights),
       .expert_backward_weights = group(expert_backward_weights)},
      *device_);
  refuse_if_interrupted(configuration.number);
}

/// Lets the device begin groups of its own, which goes on beside the steps. Members of a group come
/// here in the same order for all of theirs.
void RankExecutor::begin_own_groups(RankConfiguration& now) {
  const Configuration& configuration = now.configuration;
  refuse_if_interrupted(configuration.number);
  std::string fault;
  for (const RankGroup& planned : groups_of(spec_, now.part)) {
    auto* const group = dynamic_cast<transport::ChangingGroup*>(now.groups.get(planned.kind));
    if (!group) continue;
    now.groups_state = GroupsState::staged;
    tensor::GroupSpec spec{.name = planned.name,
                           .epoch = configuration.number,
                           .sums = spec_.cluster.collectives,
                           .deadline = kPeerDeadline};
    for (const int rank : planned.ranks)
      spec.members.push_back(configuration.members.at(rank).incarnation);
    fault = group->begin(spec);
  }
  if (!fault.empty()) spdlog::warn("collectives stay staged through host memory: {}", fault);
}

GroupsState RankExecutor::state_of_groups() const {
  const RankConfiguration& now = *configuration_;
  if (now.groups_state != GroupsState::staged) return now.groups_state;
  const bool are_ready =
      std::ranges::all_of(now.groups.changing(),
                          [](const transport::ChangingGroup* group) { return group->is_ready(); });
  return are_ready ? GroupsState::ready : GroupsState::staged;
}

/// Between two steps, as all ranks do.
void RankExecutor::use_own_groups() {
  RankConfiguration& now = *configuration_;
  if (now.groups_state != GroupsState::staged) return;
  for (transport::ChangingGroup* const group : now.groups.changing()) group->take_over();
  now.groups_state = GroupsState::own;
}

void RankExecutor::watch_groups() {
  const std::lock_guard lock(mutex_);
  const std::uint64_t progress = progress_ + (runner_ ? runner_->progress() : 0);
  const bool stands_still = standstill_.observe(progress, std::chrono::steady_clock::now());
  for (auto* const group : groups_)
    if (auto* const changing = dynamic_cast<transport::ChangingGroup*>(group))
      changing->watch(stands_still);
}

/// A group whose collectives the host does not wait for tells only here that it has failed.
void RankExecutor::refuse_failed_groups() const {
  if (configuration_->groups_state != GroupsState::own) return;
  for (const transport::ChangingGroup* const group : configuration_->groups.changing())
    if (const std::string fault = group->fault(); !fault.empty())
      throw Error(ErrorKind::unavailable, fault);
}

}  // namespace troupe::actors
