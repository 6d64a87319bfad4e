#include "schedules/planner/chunk_work.h"

#include <algorithm>

#include "schedules/planner/replica_costs.h"

namespace troupe::schedules {

LayoutCosts layout_costs(const Work& work, const Operations& operations) {
  return {.layer = layer_costs(work, operations, work.recompute),
          .kept_layer = layer_costs(work, operations, Work::Recompute::none),
          .embedding = embedding_costs(work, operations),
          .head = head_costs(work, operations)};
}

std::vector<ChunkWork> chunks_of(const std::vector<int>& layers) {
  std::vector<ChunkWork> chunks;
  for (const int count : layers) chunks.push_back({.layers = count});
  chunks.front().embedding = chunks.back().head = true;
  return chunks;
}

ChunkCosts chunk_costs(const Work& work, const Operations& operations, const LayoutCosts& costs,
                       const ChunkWork& chunk) {
  const int again =
      work.recomputed_layers == 0 ? chunk.layers : std::min(chunk.layers, work.recomputed_layers);
  ChunkCosts out;
  out.pass += again * costs.layer;
  out.pass += (chunk.layers - again) * costs.kept_layer;
  if (chunk.embedding) out.pass += costs.embedding;
  if (chunk.head) out.pass += costs.head;
  add_replica_waits(work, operations, parameters_of(work, chunk), out);
  return out;
}

double parameters_of(const Work& work, const ChunkWork& chunk) {
  const bool has_table = chunk.embedding || (chunk.head && work.tied);
  const bool has_head = chunk.head && !work.tied;
  return (chunk.layers * work.parameters_of_layer() +
          ((has_table ? 1 : 0) + (has_head ? 1 : 0)) * work.parameters_of_vocabulary()) /
         work.tp;
}

double hop_between_stages(const Work& from, const Work& to, const Operations& operations) {
  const auto whole = [&](const Work& work) {
    return operations.element_bytes() * static_cast<double>(work.tokens()) *
           static_cast<double>(work.hidden);
  };
  const bool over_network = to.ranks_apart() > static_cast<int>(operations.machine().host.devices);
  const double slice =
      operations.hop(std::max(whole(from) / from.tp, whole(to) / to.tp), over_network);
  if (to.sequence_parallel) return slice;
  return slice + operations.collective(Rounds::gather, to.tp, 1, whole(to));
}

}  // namespace troupe::schedules
