#include "actors/topology/memory/memory_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "actors/topology/memory/gpu_memory.h"
#include "actors/topology/rank_groups.h"
#include "actors/topology/stage_devices.h"
#include "actors/topology/state/state_parts.h"
#include "actors/topology/state/state_plan.h"
#include "stages/decoder/parameters/parameter_layout.h"
#include "stages/model/computation.h"
#include "tensor/device/device.h"
#include "tensor/errors/error.h"
#include "transport/wire/edge.h"

namespace troupe::actors {
namespace {

std::int64_t pool_bytes(const RankAssembly& part, int rank) {
  return static_cast<std::int64_t>(transport::slots_bytes(part.edges, rank) +
                                   transport::send_buffers_bytes(part.edges, rank));
}

/// What a rank keeps of its own state for a way back to a copied step.
std::int64_t own_copies_bytes(const RunSpec& spec, const ClusterShape& shape, int rank) {
  if (!copies_state(spec, shape) || spec.recovery.copy_interval == 1) return 0;
  return 2 * static_cast<std::int64_t>(sizeof(float)) * size_of_kept(spec, shape, rank);
}

/// What a GPU's rank holds of edges in the memory of its GPU, and of the host besides.
void place_edges(const RunSpec& spec, const ClusterShape& shape, const RankAssembly& part, int rank,
                 RankMemory& memory) {
  using transport::EdgePlacement;
  std::vector<transport::Edge> edges = part.edges;
  std::erase_if(edges,
                [](const auto& edge) { return edge.direction == transport::Direction::state; });
  memory.edges += static_cast<std::int64_t>(transport::slots_bytes(edges, rank) +
                                            transport::send_buffers_bytes(edges, rank));
  for (const auto& edge : edges) {
    const int peer = edge.to == rank ? edge.from : edge.to;
    const bool is_staged = spec.cluster.edges == transport::EdgeChoice::staged ||
                           differ_in_device(spec, shape.mesh, {rank, peer});
    memory.placements[peer] = edge.is_local() ? EdgePlacement::local
                              : is_staged     ? EdgePlacement::staged
                                              : EdgePlacement::peer;
  }
  // Messages of staged edges arrive in the host's memory, too.
  std::erase_if(edges, [&](const auto& edge) {
    const int peer = edge.to == rank ? edge.from : edge.to;
    return !edge.is_local() && memory.placements[peer] == EdgePlacement::peer;
  });
  if (std::ranges::any_of(edges, [](const auto& edge) { return !edge.is_local(); }))
    memory.allocated.pools += static_cast<std::int64_t>(transport::slots_bytes(edges, rank));
}

/// The memory of a stage alone, on this device. `cpu` plans what is alike on every device.
RankMemory memory_of_stage(const stages::StageSpec& stage, const tensor::DeviceSpec& device,
                           const RunSpec::Cluster& cluster, tensor::Device& cpu) {
  RankMemory memory{.allocated = {.stage = stages::plan_memory(stage, cpu)}};
  if (device.kind == tensor::DeviceKind::cpu) return memory;
  memory.allocated.stage.packed = packed_bytes_on_gpu(stage, memory.allocated.stage);
  memory.workspace = workspace_on_gpu(stage, device.deterministic);
  memory.context = cluster.context_bytes.value_or(kContextBytes);
  memory.process += kCudaHostBytes;
  memory.on_gpu = true;
  return memory;
}

/// A stage that takes the same memory as this one: the first shard, of a model that has no other
/// layers, as shards are alike, and layers too unless groups freeze some. To lay out the parameters
/// of a whole model for each of hundreds of stages would take seconds.
stages::StageSpec alike(stages::StageSpec stage) {
  stage.sharding.shard = 0;
  if (!stage.model.groups.empty()) return stage;
  std::vector<int> layers;
  for (const stages::ChunkSpec& chunk : stage.chunks)
    for (int layer = chunk.first_layer; layer < chunk.end_layer; ++layer) layers.push_back(layer);
  std::ranges::sort(layers);
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  for (stages::ChunkSpec& chunk : stage.chunks) {
    const int held = chunk.end_layer - chunk.first_layer;
    const auto before = std::ranges::lower_bound(layers, chunk.first_layer) - layers.begin();
    chunk.first_layer = static_cast<int>(before);
    chunk.end_layer = chunk.first_layer + held;
  }
  if (layers.empty()) layers = {0};
  stage.model = stages::with_layers(std::move(stage.model), layers);
  return stage;
}

/// What all ranks of a stage have alike.
struct RanksMemory {
  RankMemory rank;                            ///< of the first replica, without edges
  std::vector<stages::StageMemory> by_slice;  ///< RankMemory::allocated.stage, by state.index
};

/// `part`: that of one of its ranks in the first replica.
RanksMemory memory_of_ranks(const RunSpec& spec, const ClusterShape& shape, RankAssembly part,
                            tensor::Device& cpu) {
  part.stage = alike(std::move(part.stage));
  const tensor::DeviceSpec device = device_of(spec, shape.mesh, part.place.stage);
  RanksMemory memory{.rank = memory_of_stage(part.stage, device, spec.cluster, cpu),
                     .by_slice = {}};
  stages::DataParallelSpec data_parallel = spec.data_parallel;
  data_parallel.microbatches = static_cast<int>(spec.batch.microbatches(shape.mesh.dp));
  AllocatedMemory& allocated = memory.rank.allocated;
  allocated.buckets =
      stages::data_parallel_bytes(data_parallel, part.stage, shape.mesh.width(part.place.stage).dp);
  allocated.collectives = collectives_bytes(spec, part);
  if (memory.rank.on_gpu) memory.rank.communicators = num_communicators(spec, part);
  // Replicas are alike but for the slices that they keep.
  stages::ParameterLayout layout = stages::lay_out_parameters(part.stage);
  for (stages::StateSharding state = part.stage.state; state.index < state.count; ++state.index) {
    stages::keep_slices(state, layout);
    memory.by_slice.push_back(allocated.stage);
    stages::plan_state(part.stage, layout, memory.by_slice.back());
  }
  return memory;
}

/// Adds what a rank of the first replica takes for what it exchanges with other stages.
void add_edges(const RunSpec& spec, const ClusterShape& shape, const RankAssembly& part, int rank,
               RankMemory& memory) {
  memory.allocated.pools = pool_bytes(part, rank) + own_copies_bytes(spec, shape, rank);
  memory.allocated.buckets += stages::TiedSums::bytes(part.tied_parts);
  if (memory.on_gpu) place_edges(spec, shape, part, rank, memory);
}

/// What of a stage its memory grows with.
struct StageLoad {
  std::vector<stages::ChunkSpec> chunks;
  std::int64_t pools = 0;
};

/// Whether the first takes at least as much memory as the second.
bool exceeds(const StageLoad& a, const StageLoad& b) {
  if (a.chunks.size() != b.chunks.size() || a.pools < b.pools) return false;
  for (std::size_t i = 0; i < a.chunks.size(); ++i) {
    const stages::ChunkSpec &more = a.chunks[i], &less = b.chunks[i];
    const int layers = more.end_layer - more.first_layer;
    if (layers < less.end_layer - less.first_layer || more.embedding != less.embedding ||
        more.head != less.head || more.owned != less.owned || more.live < less.live ||
        more.deferred < less.deferred)
      return false;
  }
  return true;
}

/// The first ranks of the stages of which none exceeds another.
std::vector<RankAssembly> largest_stages(const RunSpec& spec, const ClusterShape& shape,
                                         const Assembly& assembly) {
  std::vector<RankAssembly> parts;
  std::vector<StageLoad> loads;
  for (int stage = 0; stage < shape.mesh.pp; ++stage) {
    const int rank = rank_at(shape.mesh, {.stage = stage});
    RankAssembly part = part_of_run(assembly, spec, shape, rank);
    StageLoad load{.chunks = part.stage.chunks, .pools = pool_bytes(part, rank)};
    // Of parameters that are frozen a layer takes less than others.
    const bool alike = spec.model.groups.empty() && spec.cluster.stage_kinds.empty();
    const auto is_exceeded = [&](const StageLoad& other) { return exceeds(other, load); };
    if (alike && std::ranges::any_of(loads, is_exceeded)) continue;
    for (std::size_t i = loads.size(); i-- > 0;) {
      if (!alike || !exceeds(load, loads[i])) continue;
      loads.erase(loads.begin() + static_cast<std::ptrdiff_t>(i));
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
    }
    loads.push_back(std::move(load));
    parts.push_back(std::move(part));
  }
  return parts;
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
  // Where stages differ in width, the peers of a replica's edges are not those of another's.
  const int in_replica = shape.mesh.is_even() ? shape.mesh.ranks_of_replica() : shape.num_ranks();
  std::vector<RankMemory> memory(static_cast<std::size_t>(shape.num_ranks()));
  std::vector<std::optional<RanksMemory>> stages(static_cast<std::size_t>(shape.mesh.pp));
  for (int first = 0; first < in_replica; ++first) {
    const RankAssembly part = part_of_run(assembly, spec, shape, first, ring);
    auto& of_stage = stages[static_cast<std::size_t>(part.place.stage)];
    if (!of_stage) of_stage = memory_of_ranks(spec, shape, part, *cpu);
    RankMemory of_first = of_stage->rank;
    add_edges(spec, shape, part, first, of_first);
    for (int rank = first; rank < shape.num_ranks(); rank += in_replica) {
      RankMemory& bytes = memory[static_cast<std::size_t>(rank)] = of_first;
      bytes.placements.clear();
      for (const auto& [peer, placement] : of_first.placements)
        bytes.placements[peer + rank - first] = placement;
      const int slice = state_sharding_of(spec, shape, rank).index;
      bytes.allocated.stage = of_stage->by_slice[static_cast<std::size_t>(slice)];
    }
  }
  return memory;
}

RankMemory memory_of_fullest(const RunSpec& spec, const ClusterShape& shape,
                             const Assembly& assembly) {
  const auto cpu = tensor::make_cpu_device(spec.cluster.device.threads);
  std::optional<RankMemory> fullest;
  for (RankAssembly& part : largest_stages(spec, shape, assembly)) {
    const int rank = rank_at(shape.mesh, part.place);
    RanksMemory of_stage = memory_of_ranks(spec, shape, part, *cpu);
    add_edges(spec, shape, part, rank, of_stage.rank);
    for (const stages::StageMemory& of_slice : of_stage.by_slice) {
      of_stage.rank.allocated.stage = of_slice;
      if (!fullest || of_stage.rank.own_total() > fullest->own_total()) fullest = of_stage.rank;
    }
  }
  TROUPE_ASSERT(fullest.has_value());
  return *fullest;
}

RankMemory memory_of_spare(const std::vector<RankMemory>& ranks) {
  TROUPE_ASSERT(!ranks.empty());
  const auto on_gpu = std::ranges::find_if(ranks, &RankMemory::on_gpu);
  RankMemory spare = on_gpu == ranks.end() ? ranks.front() : *on_gpu;
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
  const bool on_gpu = spec.cluster.device.kind == tensor::DeviceKind::cuda;
  const std::int64_t process = kProcessBytes + (on_gpu ? kCudaHostBytes : 0);
  return before.ranks + before.parked + after.ranks - in_both * process +
         std::max(before.spares, after.spares);
}

}  // namespace troupe::actors
