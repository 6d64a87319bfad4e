#include "launch/manifest/inputs/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/topology/assembly.h"
#include "actors/topology/hosts.h"
#include "actors/topology/layers/layer_costs.h"
#include "actors/topology/memory/memory_plan.h"
#include "actors/topology/shape_rules.h"
#include "actors/topology/state/state_parts.h"
#include "actors/topology/state/state_plan.h"
#include "actors/topology/validation.h"
#include "launch/manifest/keys/key.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

/// The chunk that holds a layer. The input embedding belongs to the first chunk, the final norm and
/// the head to the last.
int chunk_of(const actors::Layout& layout, int layer) {
  const int last = static_cast<int>(layout.chunks.size()) / layout.copies() - 1;
  for (int i = 0; i < last; ++i)
    if (layer < layout.chunks[static_cast<std::size_t>(i)].end_layer) return i;
  return last;
}

struct ParameterCount {
  std::int64_t all = 0, trained = 0;
  std::int64_t base = 0;  ///< of an adapter, which is there once and as weights alone
  std::int64_t with_state() const { return all - base; }
};

/// The number of parameters that each rank of a replica owns. If the schedule keeps two copies of
/// the parameters, only the first is counted.
std::vector<ParameterCount> parameters_by_rank(const actors::RunSpec& spec,
                                               const actors::Layout& layout) {
  std::vector<ParameterCount> counts(static_cast<std::size_t>(spec.mesh.ranks_of_replica()));
  for (const auto& parameter : stages::parameters_of(spec.model)) {
    const auto& chunk = layout.chunks[static_cast<std::size_t>(chunk_of(layout, parameter.layer))];
    for (actors::RankPlace place{.stage = chunk.stage};
         place.shard < spec.mesh.width(chunk.stage).tp; ++place.shard) {
      const auto sharding = actors::sharding_at(spec.mesh, place);
      if (!owns_region(parameter, spec.model, sharding)) continue;
      ParameterCount& count = counts[static_cast<std::size_t>(actors::rank_at(spec.mesh, place))];
      const std::int64_t owned = region_of(parameter, spec.model, sharding).num_elements();
      count.all += owned;
      if (!parameter.update.frozen) count.trained += owned;
      if (parameter.update.is_base) count.base += owned;
    }
  }
  return counts;
}

/// Counts the memory of all ranks, for which one after the other asks, and tells how far that is.
class MemoryCounts {
 public:
  MemoryCounts(const actors::ClusterShape& shape, const actors::Assembly& assembly,
               actors::CopyRing ring, const stages::Progress& progress, std::uint64_t total)
      : shape_(shape), assembly_(assembly), ring_(std::move(ring)), sum_(progress, total) {
    sum_.add(0);
  }
  std::vector<actors::RankMemory> of(const actors::RunSpec& spec) {
    auto memory = actors::memory_of(spec, shape_, assembly_, ring_);
    sum_.add(1);
    return memory;
  }

 private:
  const actors::ClusterShape& shape_;
  const actors::Assembly& assembly_;
  const actors::CopyRing ring_;
  stages::ProgressSum sum_;
};

/// What the activations of all ranks would take more if nothing were computed again.
std::int64_t bytes_saved(const actors::RunSpec& spec, MemoryCounts& counts,
                         const std::vector<actors::RankMemory>& memory) {
  actors::RunSpec keeping = spec;
  keeping.recompute = {};
  const auto more = counts.of(keeping);
  std::int64_t bytes = 0;
  for (std::size_t rank = 0; rank < memory.size(); ++rank)
    bytes += more[rank].allocated.stage.activations - memory[rank].allocated.stage.activations;
  return bytes;
}

RankPlacement::Formula formula_of(const actors::RunSpec& spec, const actors::ClusterShape& shape,
                                  int rank, const ParameterCount& parameters) {
  const auto state = actors::state_sharding_of(spec, shape, rank);
  const auto of_slices = [&](std::int64_t bytes) {
    return (state.twins ? 2 : 1) * bytes / state.count;
  };
  const std::int64_t whole = 4 * parameters.with_state(), slices = of_slices(whole);
  const std::int64_t moments = 8 * parameters.trained;
  const std::int64_t weights = state.weights ? slices : whole, kept = of_slices(moments);
  // The state of the step before.
  const bool keeps = actors::copies_state(spec, shape) || actors::updates_ahead(spec, shape);
  return {.weights = weights + 4 * parameters.base,
          .gradients = state.gradients ? slices : whole,
          .optimizer = kept + (keeps ? weights + kept : 0)};
}

/// What the slice that a rank keeps for another replica takes, by the formula.
std::int64_t twin_bytes(const actors::RunSpec& spec, const actors::ClusterShape& shape, int rank,
                        const ParameterCount& parameters) {
  const auto state = actors::state_sharding_of(spec, shape, rank);
  const int tensors = (state.weights ? 1 : 0) + (state.gradients ? 1 : 0);
  return state.twins
             ? 4 * (2 * parameters.trained + tensors * parameters.with_state()) / state.count
             : 0;
}

std::int64_t fullest(const std::vector<actors::RankMemory>& memory) {
  std::int64_t most = 0;
  for (const actors::RankMemory& rank : memory) most = std::max(most, rank.allocated.total());
  return most;
}

/// Placement::sharding. `memory` is that of the spec.
std::map<std::string, std::int64_t> bytes_by_sharding(
    const actors::RunSpec& spec, MemoryCounts& counts,
    const std::vector<actors::RankMemory>& memory) {
  std::map<std::string, std::int64_t> bytes;
  const auto names = find_key("data_parallel", "sharding")->member.choices;
  for (std::size_t i = 0; i < (spec.mesh.dp == 1 ? 1 : names.size()); ++i) {
    actors::RunSpec other = spec;
    const auto division = other.data_parallel.division = stages::StateDivision(i);
    if (!actors::fault_of_experts(other, other.mesh).empty()) continue;
    bytes[std::string(names[i])] =
        division == spec.data_parallel.division ? fullest(memory) : fullest(counts.of(other));
  }
  return bytes;
}

/// Placement::traffic.
std::vector<actors::ReplicaTraffic> traffic_of(const actors::RunSpec& spec,
                                               const actors::ClusterShape& shape,
                                               const actors::Assembly& assembly) {
  std::vector<actors::ReplicaTraffic> traffic;
  for (int stage = 0; shape.mesh.dp > 1 && stage < shape.mesh.pp; ++stage) {
    const int rank = actors::rank_at(shape.mesh, {.stage = stage});
    traffic.emplace_back();
    if (shape.mesh.width(stage).dp == 1) continue;
    traffic.back() =
        actors::replica_traffic(spec, shape, actors::part_of_run(assembly, spec, shape, rank));
  }
  return traffic;
}

/// What a step's plan is simulated with before anything is measured: whole numbers if all chunks
/// take as long, so that sums and comparisons of times are exact.
schedules::Costs costs_before(const actors::RunSpec& spec, const actors::ClusterShape& shape) {
  schedules::Costs costs = actors::layer_costs(spec, shape);
  const auto forward = [](const schedules::StageCosts& chunk) { return chunk.forward; };
  const auto [least, most] = std::ranges::minmax(costs.chunks, {}, forward);
  return least.forward == most.forward ? actors::unit_costs(spec) : costs;
}

tensor::CommunicationShape communication_of(const actors::RunSpec& spec, int stage,
                                            const std::vector<int>& layers) {
  return {.hidden = spec.model.hidden_size,
          .seq_len = spec.batch.seq_len,
          .batch = spec.mesh.micro_of(stage, spec.batch.micro) * spec.num_microbatches(),
          .layers = static_cast<std::int64_t>(layers.size()),
          .bytes_per_element = static_cast<std::int64_t>(tensor::size_of(spec.model.dtype))};
}

/// Placement::ahead_share.
std::optional<double> ahead_share(const actors::RunSpec& spec, const schedules::Plan& plan,
                                  schedules::Costs costs,
                                  const schedules::Simulation& behind_barrier) {
  const bool gains = spec.mesh.pp > 1 && actors::stages_end_apart(spec.schedule.kind);
  if (!gains && !actors::updates_ahead(spec)) return {};
  costs.barrier = schedules::Barrier::ahead;
  return schedules::simulate(plan, costs)->step / behind_barrier.step;
}

/// Placement::expected.
std::optional<schedules::Simulation> expected_of(const actors::RunSpec& spec,
                                                 const actors::ClusterShape& shape,
                                                 const schedules::Plan& plan) {
  if (spec.schedule.costs.empty()) return {};
  schedules::Costs costs = actors::costs_of(spec);
  costs.barrier = actors::barrier_of(spec, shape);
  return schedules::simulate(plan, costs);
}

}  // namespace

std::int64_t Placement::total_bytes() const {
  std::int64_t bytes = spares * spare_bytes;
  for (const RankPlacement& rank : ranks) bytes += rank.memory.total();
  return bytes;
}

std::int64_t Placement::device_bytes() const {
  std::int64_t bytes = spares * spare_device_bytes;
  for (const RankPlacement& rank : ranks) bytes += rank.memory.device_total();
  return bytes;
}

Placement place(const actors::RunSpec& spec, const stages::Progress& progress) {
  const actors::ClusterShape shape = actors::first_shape(spec);
  const std::vector<int> host_of_rank = actors::place_ranks(spec);
  const actors::Assembly assembly = actors::assemble(spec, shape);
  const schedules::Costs costs = costs_before(spec, shape);
  const auto simulation = schedules::simulate(assembly.plan, costs);
  TROUPE_ASSERT(simulation.has_value());  // the plan was generated or validated
  Placement placement{.parameters = stages::num_parameters(spec.model),
                      .trained = stages::num_trained_parameters(spec.model),
                      .groups = count_groups(spec.model),
                      .ranks = {},
                      .plan = assembly.plan,
                      .simulation = *simulation,
                      .digest = assembly.digest};
  placement.ahead_share = ahead_share(spec, assembly.plan, costs, *simulation);
  placement.expected = expected_of(spec, shape, assembly.plan);
  const auto parameters = parameters_by_rank(spec, shape.layout);
  const bool recomputes = spec.recompute.mode != stages::Recompute::Mode::none;
  const int divisions = spec.mesh.dp == 1 ? 1 : 4;
  MemoryCounts counts(shape, assembly, actors::copy_ring(shape, host_of_rank), progress,
                      static_cast<std::uint64_t>(divisions + (recomputes ? 1 : 0)));
  const auto memory = counts.of(spec);
  if (recomputes) placement.saved_bytes = bytes_saved(spec, counts, memory);
  placement.sharding = bytes_by_sharding(spec, counts, memory);
  placement.traffic = traffic_of(spec, shape, assembly);
  placement.division = actors::state_sharding_of(spec, shape, 0).count;
  if (!spec.cluster.hosts.empty()) placement.host_of_rank = host_of_rank;
  placement.spares = spec.recovery.spares;
  const actors::RankMemory spare = actors::memory_of_spare(memory);
  placement.spare_bytes = spare.total();
  placement.spare_device_bytes = spare.device_total();
  for (int rank = 0; rank < spec.num_ranks(); ++rank) {
    const actors::RankPlace at = actors::place_of(shape.mesh, rank);
    const int first = actors::rank_at(shape.mesh, {.stage = at.stage, .shard = at.shard});
    const ParameterCount& owned = parameters[static_cast<std::size_t>(first)];
    RankPlacement row{.rank = rank,
                      .replica = at.replica,
                      .stage = at.stage,
                      .shard = at.shard,
                      .layers = {},
                      .parameters = owned.all,
                      .trained = owned.trained,
                      .base = owned.base,
                      .memory = memory[static_cast<std::size_t>(rank)]};
    row.formula = formula_of(spec, shape, rank, owned);
    row.twin_bytes = twin_bytes(spec, shape, rank, owned);
    for (const auto& chunk : shape.layout.chunks)
      for (int layer = chunk.first_layer; chunk.stage == at.stage && layer < chunk.end_layer;
           ++layer)
        row.layers.push_back(layer);
    std::ranges::sort(row.layers);
    row.to_shards = tensor::communication_volume(communication_of(spec, at.stage, row.layers),
                                                 spec.mesh.width(at.stage).tp);
    placement.ranks.push_back(std::move(row));
  }
  return placement;
}

std::string ranges_text(const std::vector<int>& layers) {
  std::string out;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[end - 1] + 1) ++end;
    if (!out.empty()) out += ", ";
    out += end - i == 1 ? fmt::format("{}", layers[i])
                        : fmt::format("{}-{}", layers[i], layers[end - 1]);
    i = end;
  }
  return out;
}

}  // namespace troupe::launch
