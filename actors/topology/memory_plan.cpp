#include "actors/topology/memory_plan.h"

#include <algorithm>

#include "actors/worker/neighbour_copies.h"
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

}  // namespace

std::vector<RankMemory> memory_of(const RunSpec& spec, const Shape& shape,
                                  const Assembly& assembly) {
  const auto device = tensor::make_cpu_device(spec.cluster.threads);
  std::vector<RankMemory> memory;
  for (int rank = 0; rank < shape.num_ranks(); ++rank) {
    RankAssembly part = part_of(assembly, spec, shape, rank);
    if (copies_state(spec, shape)) {
      part.stage.keep_previous = true;
      const auto edges = copy_edges(spec, shape, rank);
      part.edges.insert(part.edges.end(), edges.begin(), edges.end());
    }
    // Replicas are alike: the first one's memory serves the others.
    memory.push_back({.stage = part.place.replica == 0
                                   ? stages::plan_memory(part.stage, *device)
                                   : memory[static_cast<std::size_t>(part.place.stage)].stage,
                      .pools = pool_bytes(part, rank)});
  }
  return memory;
}

std::int64_t total_memory(const RunSpec& spec, const Shape& shape) {
  std::int64_t bytes = 0;
  for (const RankMemory& rank : memory_of(spec, shape, assemble(spec, shape)))
    bytes += rank.total();
  return bytes;
}

std::int64_t total_memory_of_change(const RunSpec& spec, const Shape& now, const Shape& next) {
  const int in_both = std::min(now.num_ranks(), next.num_ranks());
  return total_memory(spec, now) + total_memory(spec, next) - in_both * kProcessBytes;
}

}  // namespace troupe::actors
