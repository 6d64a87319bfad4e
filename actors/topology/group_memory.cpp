#include "actors/topology/group_memory.h"

#include <algorithm>
#include <vector>

#include "stages/replicas/gradient_traffic.h"
#include "stages/stage/row_sizes.h"

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

/// The rows of a microbatch.
std::int64_t rows_of(const stages::StageSpec& stage) {
  return stages::row_sizes(stage.documents, stage.micro * stage.seq_len, stage.sharding.size)
      .capacity;
}

/// Numbers of a step's tokens, and of what tells its documents apart, that the first shard sends.
std::int64_t num_tokens(const RunSpec& spec, const RankAssembly& part) {
  if (!spec.data.first_shard_reads) return 0;
  const int replicas = std::max(1, static_cast<int>(part.replica_ranks.size()));
  const std::int64_t rows = rows_of(part.stage);
  const std::int64_t numbers =
      spec.batch.documents == stages::Documents::joined ? 2 * rows : 4 * rows + 3;
  return spec.batch.microbatches(replicas) * numbers + 2;
}

}  // namespace

GroupRooms group_memory(const RunSpec& spec, const RankAssembly& part) {
  const auto traffic = stages::gradient_traffic(spec.data_parallel.buckets, part.stage);
  const stages::ModelConfig& model = part.stage.model;
  const int buckets = traffic.at_once;
  LargestCollective of_replicas(sharing_ranks(part));
  of_replicas.gathered(traffic.sums, kNumber);
  if (part.stage.state.count > 1)
    of_replicas.gathered(traffic.slice, kFloat);
  else
    of_replicas.reduced(traffic.bucket, tensor::size_of(spec.data_parallel.wire));
  // The loss of a divided vocabulary sums three numbers for each row at most.
  const LargestCollective activations =
      LargestCollective(part.shard_ranks)
          .reduced(rows_of(part.stage) * model.hidden_size, tensor::size_of(model.dtype))
          .reduced(3 * rows_of(part.stage), kFloat);
  const LargestCollective weights =
      LargestCollective(sharing_ranks(part)).gathered(traffic.slice, kFloat);
  const auto reduced = [](const std::vector<int>& ranks, std::int64_t elements, int at_once) {
    return LargestCollective(ranks).reduced(elements, kFloat).room(at_once);
  };
  return {.tied = reduced(part.tied_ranks, traffic.tied, 1),
          .mirror = reduced(part.mirror_ranks, traffic.bucket, buckets),
          .replicas = of_replicas.room(buckets),
          .instances = reduced(instance_ranks(part), traffic.slice, buckets),
          // One after the other: pieces of one forward keep the wire busy, and twins are to take
          // little more than the state that they keep.
          .twins = LargestCollective(sharing_ranks(part)).forwarded(traffic.slice, kFloat).room(1),
          .forward_weights = weights.room(traffic.forward_gathers),
          .backward_weights = weights.room(traffic.backward_gathers),
          .shard_forwards = LargestCollective(activations)
                                .forwarded(num_tokens(spec, part), sizeof(std::int32_t))
                                .room(1),
          .shard_backwards = activations.room(kOfPass),
          .shard_gradients = reduced(part.shard_ranks, traffic.norms, buckets),
          .kv_head = reduced(part.kv_head_ranks, traffic.kv_heads, buckets)};
}

std::int64_t collectives_bytes(const RunSpec& spec, const RankAssembly& part) {
  const GroupRooms rooms = group_memory(spec, part);
  const auto of = [](const CollectiveMemory& room, const std::vector<int>& ranks) {
    return ranks.empty() ? 0 : room.bytes();
  };
  const auto sharing = sharing_ranks(part);
  std::int64_t bytes = of(rooms.tied, part.tied_ranks) + of(rooms.mirror, part.mirror_ranks) +
                       of(rooms.replicas, sharing) + of(rooms.instances, instance_ranks(part)) +
                       of(rooms.shard_forwards, part.shard_ranks) +
                       of(rooms.shard_backwards, part.shard_ranks) +
                       of(rooms.kv_head, part.kv_head_ranks);
  if (part.stage.state.twins) bytes += of(rooms.twins, sharing);
  if (part.stage.state.weights) bytes += of(rooms.forward_weights, sharing);
  if (part.stage.state.weights && part.stage.state.reshards)
    bytes += of(rooms.backward_weights, sharing);
  if (part.stage.sharding.sequence_parallel) bytes += of(rooms.shard_gradients, part.shard_ranks);
  return bytes;
}

}  // namespace troupe::actors
