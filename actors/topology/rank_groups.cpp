#include "actors/topology/rank_groups.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "stages/replicas/step_collectives.h"

namespace troupe::actors {
namespace {

using transport::CollectiveMemory;

/// Collectives of one direction of the layers that run at a time: a gradient that is gathered, one
/// that is reduced, and an input that is gathered again.
constexpr int kOfPass = 3;
constexpr std::size_t kFloat = sizeof(float), kNumber = sizeof(double);

/// The largest of some collectives among these ranks.
class LargestCollective {
 public:
  explicit LargestCollective(const std::vector<int>& ranks)
      : members_(std::max(1, static_cast<int>(ranks.size()))) {}
  LargestCollective& reduced(std::int64_t elements, std::size_t element_bytes) {
    return keep(transport::all_reduce_slots_bytes(static_cast<std::size_t>(elements), element_bytes,
                                                  members_));
  }
  /// Each member has so many bytes for each other one.
  LargestCollective& gathered(std::int64_t elements, std::size_t element_bytes) {
    return keep(transport::slots_bytes(static_cast<std::size_t>(elements) * element_bytes,
                                       static_cast<std::size_t>(members_ - 1)));
  }
  /// Each member has so many bytes from one other.
  LargestCollective& forwarded(std::int64_t elements, std::size_t element_bytes) {
    return keep(transport::slots_bytes(static_cast<std::size_t>(elements) * element_bytes, 1));
  }
  CollectiveMemory room(int at_once) const { return {.at_once = at_once, .slots_bytes = bytes_}; }

 private:
  LargestCollective& keep(std::size_t bytes) {
    bytes_ = std::max(bytes_, bytes);
    return *this;
  }

  int members_;
  std::size_t bytes_ = 0;
};

/// Numbers of a step's tokens, and of what tells its documents apart, that the first shard sends.
std::int64_t num_tokens(const RunSpec& spec, const RankAssembly& part) {
  if (!spec.data.first_shard_reads) return 0;
  const int replicas = std::max(1, static_cast<int>(part.replica_ranks.size()));
  const std::int64_t rows = part.stage.rows().capacity;
  const std::int64_t numbers =
      spec.batch.documents == stages::Documents::joined ? 2 * rows : 4 * rows + 3;
  return spec.batch.global / replicas / part.stage.micro * numbers + 2;
}

/// Those among the shards of a stage. The loss of a divided vocabulary sums three numbers for each
/// row at most.
LargestCollective of_activations(const RankAssembly& part) {
  const std::int64_t rows = part.stage.rows().capacity;
  const stages::ModelConfig& model = part.stage.model;
  return LargestCollective(part.shard_ranks)
      .reduced(rows * model.hidden_size, tensor::size_of(model.dtype))
      .reduced(3 * rows, kFloat);
}

/// Groups in which divided weights are gathered; those of experts among the replicas that hold
/// these.
void add_groups_of_weights(const RankAssembly& part, const stages::GradientTraffic& traffic,
                           std::vector<RankGroup>& groups) {
  const stages::StateSharding& state = part.stage.state;
  if (!state.weights) return;
  const std::string name = "weights of stage " + std::to_string(part.place.stage) + ", ";
  const auto add = [&](GroupKind kind, const std::string& what, const std::vector<int>& ranks,
                       int at_once) {
    if (ranks.empty()) return;
    const auto memory = LargestCollective(ranks).gathered(traffic.slice, kFloat).room(at_once);
    groups.push_back({.kind = kind, .name = name + what, .ranks = ranks, .memory = memory});
  };
  const std::vector<int> all = sharing_ranks(part), holders = expert_sharing_ranks(part);
  add(GroupKind::forward_weights, "forwards", all, traffic.forward_gathers);
  add(GroupKind::expert_forward_weights, "experts, forwards", holders, traffic.forward_gathers);
  if (!state.reshards) return;
  add(GroupKind::backward_weights, "backwards", all, traffic.backward_gathers);
  add(GroupKind::expert_backward_weights, "experts, backwards", holders, traffic.backward_gathers);
}

/// Rows that travel to a replica's experts and back: all that a microbatch has may go to one of the
/// neighbours, which uneven loads seldom come near. The memory of messages that never come is not
/// touched.
void add_groups_of_tokens(const RankAssembly& part, std::vector<RankGroup>& groups) {
  const std::vector<int> neighbours = expert_ranks(part);
  if (neighbours.empty()) return;
  const stages::ModelConfig& model = part.stage.model;
  const stages::Sharding& sharding = part.stage.sharding;
  const std::int64_t tokens =
      part.stage.rows().capacity / (sharding.whole_experts ? sharding.size : 1);
  const std::int64_t rows = tokens * model.experts.per_token;
  const CollectiveMemory memory =
      LargestCollective(neighbours)
          .gathered(rows * model.hidden_size, tensor::size_of(model.dtype))
          .gathered(rows, kFloat)
          .room(kOfPass);
  const std::string name = "experts of stage " + std::to_string(part.place.stage) + ", ";
  for (const auto& [kind, pass] : {std::pair(GroupKind::expert_forwards, "forwards"),
                                   std::pair(GroupKind::expert_backwards, "backwards")})
    groups.push_back({.kind = kind, .name = name + pass, .ranks = neighbours, .memory = memory});
}

/// For the sum of the gradients of a tied matrix, of which a rank has so many elements.
CollectiveMemory of_tied_matrix(const RankAssembly& part, std::int64_t elements) {
  LargestCollective largest(part.tied_ranks);
  if (part.tied_parts.empty())
    largest.reduced(elements, kFloat);
  else
    largest.gathered(part.tied_parts.largest, kFloat);
  return largest.room(1);
}

}  // namespace

std::vector<RankGroup> groups_of(const RunSpec& spec, const RankAssembly& part) {
  const auto traffic = stages::gradient_traffic(spec.data_parallel.buckets, part.stage);
  const stages::StateSharding& state = part.stage.state;
  const int buckets = traffic.at_once;
  const std::vector<int> sharing = sharing_ranks(part);
  const auto of_replicas = [&](const std::vector<int>& ranks) {
    LargestCollective largest(ranks);
    largest.gathered(traffic.sums, kNumber);
    return state.count > 1
               ? largest.gathered(traffic.slice, kFloat)
               : largest.reduced(traffic.bucket, tensor::size_of(spec.data_parallel.wire));
  };
  const LargestCollective activations = of_activations(part);

  std::vector<RankGroup> groups;
  const auto add = [&](GroupKind kind, const std::string& name, const std::vector<int>& ranks,
                       const CollectiveMemory& memory) {
    if (!ranks.empty())
      groups.push_back({.kind = kind, .name = name, .ranks = ranks, .memory = memory});
  };
  const auto add_reduced = [&](GroupKind kind, const std::string& name,
                               const std::vector<int>& ranks, std::int64_t elements, int at_once) {
    add(kind, name, ranks, LargestCollective(ranks).reduced(elements, kFloat).room(at_once));
  };
  using enum GroupKind;
  const std::string stage = " of stage " + std::to_string(part.place.stage);
  const std::string shards = "shards" + stage + ", ";
  add(tied, "tied embedding", part.tied_ranks, of_tied_matrix(part, traffic.tied));
  add(replicas, "replicas" + stage, sharing, of_replicas(sharing).room(buckets));
  add_reduced(instances, "instances" + stage, instance_ranks(part), traffic.slice, buckets);
  // One after the other: pieces of one forward keep the wire busy, and twins are to take little
  // more than the state that they keep.
  if (state.twins)
    add(twins, "twins" + stage, sharing,
        LargestCollective(sharing).forwarded(traffic.slice, kFloat).room(1));
  add_groups_of_weights(part, traffic, groups);
  if (const std::vector<int>& pair = part.mirror_ranks; !pair.empty())
    add_reduced(
        mirror,
        "copies on ranks " + std::to_string(pair.front()) + " and " + std::to_string(pair.back()),
        pair, traffic.bucket, buckets);
  add(shard_forwards, shards + "forwards", part.shard_ranks,
      LargestCollective(activations)
          .forwarded(num_tokens(spec, part), sizeof(std::int32_t))
          .room(1));
  add(shard_backwards, shards + "backwards", part.shard_ranks, activations.room(kOfPass));
  if (stages::sums_gradients(part.stage.model, part.stage.sharding))
    add_reduced(shard_gradients, shards + "gradients", part.shard_ranks, traffic.norms, buckets);
  add_reduced(kv_head, shards + "key and value heads", part.kv_head_ranks, traffic.kv_heads,
              buckets);
  const std::vector<int> holders = expert_sharing_ranks(part);
  add(expert_replicas, "experts" + stage, holders, of_replicas(holders).room(buckets));
  add_groups_of_tokens(part, groups);
  return groups;
}

int num_communicators(const RunSpec& spec, const RankAssembly& part) {
  std::set<std::vector<int>> members;
  for (const RankGroup& group : groups_of(spec, part))
    if (group.ranks.size() > 1) members.insert(group.ranks);
  return static_cast<int>(members.size());
}

std::int64_t collectives_bytes(const RunSpec& spec, const RankAssembly& part) {
  std::int64_t bytes = 0;
  for (const RankGroup& group : groups_of(spec, part)) bytes += group.memory.bytes();
  return bytes;
}

}  // namespace troupe::actors
