#include "actors/topology/memory_plan.h"

#include <algorithm>

#include "actors/topology/gpu_memory.h"
#include "actors/topology/rank_groups.h"
#include "actors/topology/state_parts.h"
#include "actors/topology/state_plan.h"
#include "stages/decoder/parameters/parameter_layout.h"
#include "tensor/device/device.h"
#include "tensor/errors/error.h"
#include "transport/wire/edge.h"

namespace troupe::actors {
namespace {

std::int64_t pool_bytes(const RankAssembly& part, int rank) {
  std::int64_t bytes = 0;
  for (const auto& edge : part.edges) {
    if (edge.to == rank) bytes += static_cast<std::int64_t>(transport::slots_bytes(edge));
    if (edge.from == rank) bytes += static_cast<std::int64_t>(transport::send_buffers_bytes(edge));
  }
  return bytes;
}

/// What a rank keeps of its own state for a way back to a copied step.
std::int64_t own_copies_bytes(const RunSpec& spec, const ClusterShape& shape, int rank) {
  if (!copies_state(spec, shape) || spec.recovery.copy_interval == 1) return 0;
  return 2 * static_cast<std::int64_t>(sizeof(float)) *
         size_of_units(units_of(spec, shape, rank), spec.model, sharding_of(shape, rank));
}

/// What a GPU's rank holds of edges in the memory of its GPU, and of the host besides.
void place_edges(const RankAssembly& part, int rank, transport::EdgeChoice choice,
                 RankMemory& memory) {
  using transport::EdgePlacement;
  const auto crossing =
      choice == transport::EdgeChoice::staged ? EdgePlacement::staged : EdgePlacement::peer;
  for (const auto& edge : part.edges) {
    if (edge.direction == transport::Direction::state) continue;
    const auto slots = static_cast<std::int64_t>(transport::slots_bytes(edge));
    if (edge.from == rank)
      memory.edges += static_cast<std::int64_t>(transport::send_buffers_bytes(edge));
    if (edge.to == rank) memory.edges += slots;
    // The messages arrive in the host's memory, too.
    if (edge.to == rank && crossing == EdgePlacement::staged) memory.allocated.pools += slots;
    const int peer = edge.to == rank ? edge.from : edge.to;
    memory.placements[peer] = edge.is_local() ? EdgePlacement::local : crossing;
  }
}

bool on_gpu(const RunSpec& spec) {
  return spec.cluster.device.kind == tensor::DeviceKind::cuda;
}

/// The memory of a stage alone. `cpu` plans what is alike on every device.
RankMemory memory_of_stage(const stages::StageSpec& stage, const RunSpec::Cluster& cluster,
                           tensor::Device& cpu) {
  RankMemory memory{.allocated = {.stage = stages::plan_memory(stage, cpu)}};
  if (cluster.device.kind == tensor::DeviceKind::cpu) return memory;
  memory.allocated.stage.packed = packed_bytes_on_gpu(stage, memory.allocated.stage);
  memory.workspace = workspace_on_gpu(stage, cluster.device.deterministic);
  memory.context = cluster.context_bytes.value_or(kContextBytes);
  memory.process += kCudaHostBytes;
  memory.on_gpu = true;
  return memory;
}

/// The memory of a rank of the first replica.
RankMemory memory_of_rank(const RunSpec& spec, const ClusterShape& shape, const RankAssembly& part,
                          int rank, tensor::Device& cpu) {
  RankMemory bytes = memory_of_stage(part.stage, spec.cluster, cpu);
  stages::DataParallelSpec data_parallel = spec.data_parallel;
  data_parallel.microbatches = static_cast<int>(spec.batch.microbatches(shape.mesh.dp));
  AllocatedMemory& allocated = bytes.allocated;
  allocated.buckets = stages::data_parallel_bytes(data_parallel, part.stage, shape.mesh.dp);
  allocated.collectives = collectives_bytes(spec, part);
  if (bytes.on_gpu) bytes.communicators = num_communicators(spec, part);
  allocated.pools = pool_bytes(part, rank) + own_copies_bytes(spec, shape, rank);
  if (bytes.on_gpu) place_edges(part, rank, spec.cluster.edges, bytes);
  return bytes;
}

struct SplitMemory {
  std::int64_t ranks = 0, spares = 0;
  std::int64_t parked = 0;  ///< what ranks keep of their state while it leaves a full GPU
};

SplitMemory split_memory(const RunSpec& spec, const ClusterShape& shape) {
  const auto memory = memory_of(spec, shape, assemble(spec, shape));
  SplitMemory all;
  for (const RankMemory& rank : memory) {
    all.ranks += rank.host_total();
    if (rank.on_gpu) all.parked += rank.allocated.stage.weights + rank.allocated.stage.optimizer;
  }
  all.spares = spec.recovery.spares * memory_of_spare(memory).host_total();
  return all;
}

}  // namespace

std::vector<RankMemory> memory_of(const RunSpec& spec, const ClusterShape& shape,
                                  const Assembly& assembly, const CopyRing& ring) {
  const auto cpu = tensor::make_cpu_device(spec.cluster.device.threads);
  const int in_replica = shape.mesh.ranks_of_replica();
  std::vector<RankMemory> memory(static_cast<std::size_t>(shape.num_ranks()));
  for (int first = 0; first < in_replica; ++first) {
    const RankAssembly part = part_of_run(assembly, spec, shape, first, ring);
    const RankMemory of_first = memory_of_rank(spec, shape, part, first, *cpu);
    // Replicas are alike but for the slices that they keep.
    stages::ParameterLayout layout = stages::lay_out_parameters(part.stage);
    for (int rank = first; rank < shape.num_ranks(); rank += in_replica) {
      RankMemory& bytes = memory[static_cast<std::size_t>(rank)] = of_first;
      bytes.placements.clear();
      for (const auto& [peer, placement] : of_first.placements)
        bytes.placements[peer + rank - first] = placement;
      stages::keep_slices(state_sharding_of(spec, shape, rank), layout);
      stages::plan_state(part.stage, layout, bytes.allocated.stage);
    }
  }
  return memory;
}

RankMemory memory_of_spare(const std::vector<RankMemory>& ranks) {
  TROUPE_ASSERT(!ranks.empty());
  RankMemory spare = ranks.front();
  AllocatedMemory& most = spare.allocated;
  for (const RankMemory& rank : ranks) {
    const AllocatedMemory& allocated = rank.allocated;
    if (allocated.stage.total() > most.stage.total()) most.stage = allocated.stage;
    most.buckets = std::max(most.buckets, allocated.buckets);
    most.collectives = std::max(most.collectives, allocated.collectives);
    most.pools = std::max(most.pools, allocated.pools);
    spare.workspace = std::max(spare.workspace, rank.workspace);
    spare.edges = std::max(spare.edges, rank.edges);
  }
  return spare;
}

std::int64_t total_memory(const RunSpec& spec, const ClusterShape& shape) {
  const SplitMemory memory = split_memory(spec, shape);
  return memory.ranks + memory.spares;
}

std::int64_t total_memory_of_change(const RunSpec& spec, const ClusterShape& now,
                                    const ClusterShape& next) {
  const int in_both = std::min(now.num_ranks(), next.num_ranks());
  const SplitMemory before = split_memory(spec, now), after = split_memory(spec, next);
  const std::int64_t process = kProcessBytes + (on_gpu(spec) ? kCudaHostBytes : 0);
  return before.ranks + before.parked + after.ranks - in_both * process +
         std::max(before.spares, after.spares);
}

}  // namespace troupe::actors
