#include "actors/topology/memory_plan.h"

#include <algorithm>

#include "tensor/device.h"
#include "transport/channel.h"

namespace troupe::actors {
namespace {

std::int64_t pool_bytes(const RankAssembly& part, int rank) {
  std::int64_t bytes = 0;
  for (const auto& edge : part.edges) {
    const auto message =
        edge.shape.num_elements() * static_cast<std::int64_t>(tensor::size_of(edge.dtype));
    if (edge.to == rank) bytes += edge.slots * message;
    if (edge.from == rank) bytes += transport::kSendBuffers * message;
  }
  return bytes;
}

struct SplitMemory {
  std::int64_t ranks = 0, spares = 0;
};

SplitMemory split_memory(const RunSpec& spec, const ClusterShape& shape) {
  const auto memory = memory_of(spec, shape, assemble(spec, shape));
  SplitMemory all;
  for (const RankMemory& rank : memory) all.ranks += rank.total();
  all.spares = spec.recovery.spares * memory_of_spare(memory);
  return all;
}

}  // namespace

std::vector<RankMemory> memory_of(const RunSpec& spec, const ClusterShape& shape,
                                  const Assembly& assembly) {
  const auto device = tensor::make_cpu_device(spec.cluster.threads);
  std::vector<RankMemory> memory;
  const int in_replica = shape.mesh.ranks_of_replica();
  for (int rank = 0; rank < shape.num_ranks(); ++rank) {
    const RankAssembly part = part_of_run(assembly, spec, shape, rank);
    // Replicas are alike, so the others take the stage memory of the one before.
    memory.push_back({.stage = part.place.replica == 0
                                   ? stages::plan_memory(part.stage, *device)
                                   : memory[static_cast<std::size_t>(rank - in_replica)].stage,
                      .pools = pool_bytes(part, rank)});
  }
  return memory;
}

std::int64_t memory_of_spare(const std::vector<RankMemory>& ranks) {
  RankMemory spare;
  for (const RankMemory& rank : ranks) {
    if (rank.stage.total() > spare.stage.total()) spare.stage = rank.stage;
    spare.pools = std::max(spare.pools, rank.pools);
  }
  return spare.total();
}

std::int64_t total_memory(const RunSpec& spec, const ClusterShape& shape) {
  const SplitMemory memory = split_memory(spec, shape);
  return memory.ranks + memory.spares;
}

std::int64_t total_memory_of_change(const RunSpec& spec, const ClusterShape& now,
                                    const ClusterShape& next) {
  const int in_both = std::min(now.num_ranks(), next.num_ranks());
  const SplitMemory before = split_memory(spec, now), after = split_memory(spec, next);
  return before.ranks + after.ranks - in_both * kProcessBytes +
         std::max(before.spares, after.spares);
}

}  // namespace troupe::actors
