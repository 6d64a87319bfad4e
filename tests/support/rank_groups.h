#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "actors/topology/assembly.h"
#include "stages/replicas/data_parallel.h"
#include "tests/support/test_device.h"
#include "tests/support/thread_cluster.h"
#include "tests/transport/ucx/ucx_nodes.h"
#include "transport/collectives/changing_group.h"
#include "transport/node/ucx_node.h"

namespace troupe::test {

/// The groups of one rank, as a configuration makes them.
struct RankGroups {
  RankGroups(transport::UcxNode& node, tensor::Device& device, const actors::RankAssembly& part,
             int rank) {
    int kind = 0;
    const auto make = [&](const std::string& name, const std::vector<int>& ranks) {
      std::unique_ptr<tensor::ProcessGroup> group;
      ++kind;
      if (ranks.empty()) return group;
      group = node.make_group(ThreadCluster::kRun, ThreadCluster::kConfiguration,
                              100 * kind + ranks.front(), name, ranks, rank);
      return transport::group_for(device, std::move(group), name);
    };
    forward = make("forwards", part.shard_ranks);
    backward = make("backwards", part.shard_ranks);
    gradients = make("gradients",
                     part.stage.sharding.sequence_parallel ? part.shard_ranks : std::vector<int>{});
    kv_head = make("heads", part.kv_head_ranks);
    tied = make("tied", part.tied_ranks);
    mirror = make("mirror", part.mirror_ranks);
    replicas = make("replicas", sharing_ranks(part));
    instances = make("instances", instance_ranks(part));
    const auto sharing_if = [&](bool has) {
      return has ? sharing_ranks(part) : std::vector<int>{};
    };
    twins = make("twins", sharing_if(part.stage.state.twins));
    forward_weights = make("weights, forwards", sharing_if(part.stage.state.weights));
    backward_weights = make("weights, backwards", sharing_if(part.stage.state.weights));
  }
  stages::ShardGroups shards() const {
    return {.forward = forward.get(),
            .backward = backward.get(),
            .gradients = gradients.get(),
            .kv_head = kv_head.get()};
  }
  stages::GradientGroups gradient_groups() const {
    return {.tied = {.group = tied.get(), .name = "tied"},
            .mirror = {.group = mirror.get(), .name = "mirror"},
            .replicas = {.group = replicas.get(), .name = "replicas"},
            .instances = {.group = instances.get(), .name = "instances"},
            .twins = {.group = twins.get(), .name = "twins"},
            .forward_weights = forward_weights.get(),
            .backward_weights = backward_weights.get()};
  }

  std::unique_ptr<tensor::ProcessGroup> forward, backward, gradients, kv_head, tied, mirror,
      replicas, instances, twins, forward_weights, backward_weights;
};

/// What a rank computes with in a thread of its own, joined to its groups. The channel is one of
/// `nodes`.
struct ThreadRank {
  ThreadRank(const ThreadCluster& cluster, UcxNodes& nodes, int rank)
      : part(cluster.part(rank)),
        device(make_test_device()),
        stage(cluster.make_stage(rank, *device)),
        channel(opened(cluster, nodes, rank, device)),
        groups(nodes.node(rank), *device, part, rank) {
    stage->join(groups.shards());
  }

  const actors::RankAssembly part;
  const std::shared_ptr<tensor::Device> device;
  const std::unique_ptr<stages::Stage> stage;
  transport::Channel& channel;
  const RankGroups groups;

 private:
  static transport::Channel& opened(const ThreadCluster& cluster, UcxNodes& nodes, int rank,
                                    const std::shared_ptr<tensor::Device>& device) {
    auto& channel = nodes.channel(rank);
    channel.set_deadline(std::chrono::seconds(30));
    nodes.keep(device);
    cluster.open(channel, rank, device.get());
    return channel;
  }
};

}  // namespace troupe::test
