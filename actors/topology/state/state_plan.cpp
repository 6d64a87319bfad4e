#include "actors/topology/state/state_plan.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "actors/topology/state/state_parts.h"

namespace troupe::actors {
namespace {

/// A place from which a unit can be taken.
struct Source {
  int member = 0;  ///< member of the new configuration that holds it
  int copy_of = -1;
};

bool has(const StateInventory& held, std::int64_t step) {
  return held.step == step || (held.has_previous && held.step == step + 1);
}

/// A part of a unit.
struct UnitPart {
  int unit = 0;
  int part = 0;
  auto operator<=>(const UnitPart&) const = default;
};
using Sources = std::map<UnitPart, std::vector<Source>>;

/// All places that hold the state of `step`; own state comes before copies.
Sources find_sources(const RunSpec& spec, const Configuration& kept, const Configuration& next,
                     const std::map<std::uint64_t, StateInventory>& inventory, std::int64_t step) {
  const StateParts parts(spec, kept.shape);
  Sources own, copied;
  const auto add = [&](Sources& sources, int rank_of_kept, const Source& source) {
    for (const int part : parts.kept_by(rank_of_kept))
      for (const int unit : units_of(spec, kept.shape, rank_of_kept))
        sources[{.unit = unit, .part = part}].push_back(source);
  };
  for (const auto& [incarnation, held] : inventory) {
    const int member = next.rank_of(incarnation);
    const int rank = kept.rank_of(incarnation);
    if (member < 0) continue;
    if (rank >= 0 && rank < kept.num_ranks() && has(held, step)) add(own, rank, {.member = member});
    for (const CopyRecord& copy : held.copies)
      if (copy.step == step && copy.rank < kept.num_ranks())
        add(copied, copy.rank, {.member = member, .copy_of = copy.rank});
  }
  for (auto& [part, sources] : copied)
    own[part].insert(own[part].end(), sources.begin(), sources.end());
  return own;
}

/// 0: the receiver itself; 1: a member of its replica; 2: any other.
int distance(const Source& source, int to, const RunSpec::Mesh& mesh) {
  if (source.member == to) return 0;
  return place_of(mesh, source.member).replica == place_of(mesh, to).replica ? 1 : 2;
}

std::vector<int> copied_ranks(const RunSpec& spec, const Configuration& kept,
                              const Configuration& next,
                              const std::map<std::uint64_t, StateInventory>& inventory,
                              std::int64_t step) {
  const bool alike = kept.shape.mesh == next.shape.mesh && kept.shape.layout == next.shape.layout;
  std::vector<int> ranks;
  if (!alike || !copies_state(spec, next.shape)) return ranks;
  const CopyRing ring = copy_ring(next);
  for (int rank = 0; rank < next.num_ranks(); ++rank) {
    const int holder = ring.keeper_of(next.shape, rank);
    if (holder < 0) continue;
    const auto held = inventory.find(next.members.at(holder).incarnation);
    const CopyRecord wanted{.rank = rank, .step = step};
    if (held != inventory.end() &&
        std::ranges::find(held->second.copies, wanted) != held->second.copies.end())
      ranks.push_back(rank);
  }
  return ranks;
}

/// Finds the moves of one step's state, from the ranks of one configuration to those of the next.
class MoveFinder {
 public:
  MoveFinder(const RunSpec& spec, const Configuration& kept, const Configuration& next,
             Sources sources)
      : spec_(spec),
        next_(next),
        sources_(std::move(sources)),
        from_(spec, kept.shape),
        to_(spec, next.shape) {
    for (const auto& info : stages::parameters_of(spec.model))
      if (num_state_tensors(info) > 0) parameters_[unit_of(info, spec.model)].push_back(info);
    for (int stage = 0; stage < kept.shape.mesh.pp; ++stage)
      for (const int unit : units_of(spec, kept.shape, rank_at(kept.shape.mesh, {.stage = stage})))
        stages_[unit].push_back(stage);
  }

  /// Those of one unit to a rank, from the stage whose parts are nearest: a tied matrix lies on
  /// two. None if no stage's parts are all held.
  std::optional<std::vector<StateMove>> find(int unit, int rank) const {
    std::optional<Moves> best;
    for (const int stage : stages_.at(unit)) {
      auto moves = find_from(stage, unit, rank);
      if (moves && (!best || moves->distance < best->distance)) best = std::move(moves);
      if (!from_.are_of_stages()) break;  // all stages have the same parts
    }
    if (!best) return std::nullopt;
    return std::move(best->all);
  }

 private:
  struct Moves {
    std::vector<StateMove> all;
    int distance = 0;  ///< of their sources, added up
  };

  std::optional<Moves> find_from(int stage, int unit, int rank) const {
    Moves moves;
    for (const int part : from_.of_stage(stage)) {
      if (!travels(unit, part, rank)) continue;
      const auto found = sources_.find({.unit = unit, .part = part});
      if (found == sources_.end()) return std::nullopt;
      const auto far = [&](const Source& s) { return distance(s, rank, next_.shape.mesh); };
      const Source source = *std::ranges::min_element(found->second, {}, far);
      moves.distance += far(source);
      moves.all.push_back({.unit = unit,
                           .from = source.member,
                           .to = rank,
                           .copy_of = source.copy_of,
                           .part = part});
    }
    return moves;
  }
  /// Whether the rank keeps anything of the part.
  bool travels(int unit, int part, int rank) const {
    const std::vector<int> kept = to_.kept_by(rank);
    const auto of_unit = parameters_.find(unit);
    if (of_unit == parameters_.end()) return false;
    return std::ranges::any_of(of_unit->second, [&](const stages::ParameterInfo& info) {
      return std::ranges::any_of(kept, [&](int into) {
        return moved_region(info, spec_.model, from_, part, to_, into).num_elements() > 0;
      });
    });
  }

  const RunSpec& spec_;
  const Configuration& next_;
  const Sources sources_;
  const StateParts from_, to_;
  std::map<int, std::vector<stages::ParameterInfo>> parameters_;  // by unit
  std::map<int, std::vector<int>> stages_;  // of the old configuration that hold a unit
};

std::optional<StatePlan> plan_step(const RunSpec& spec, const Configuration& kept,
                                   const Configuration& next,
                                   const std::map<std::uint64_t, StateInventory>& inventory,
                                   std::int64_t step) {
  const MoveFinder finder(spec, kept, next, find_sources(spec, kept, next, inventory, step));
  StatePlan plan{.step = step, .from_memory = true, .kept = kept.shape};
  for (int rank = 0; rank < next.num_ranks(); ++rank)
    for (const int unit : units_of(spec, next.shape, rank)) {
      const auto moves = finder.find(unit, rank);
      if (!moves) return std::nullopt;
      plan.moves.insert(plan.moves.end(), moves->begin(), moves->end());
    }
  plan.copied = copied_ranks(spec, kept, next, inventory, step);
  return plan;
}

}  // namespace

int unit_of(const stages::ParameterInfo& parameter, const stages::ModelConfig& model) {
  return unit_of_layer(parameter.layer, static_cast<int>(model.num_hidden_layers));
}

int num_state_tensors(const stages::ParameterInfo& parameter) {
  if (parameter.update.is_base) return 0;
  return parameter.update.frozen ? 1 : kMostStateTensors;
}

std::int64_t size_of_units(std::span<const int> units, const stages::ModelConfig& model,
                           const stages::Sharding& sharding) {
  std::int64_t size = 0;
  for (const auto& parameter : stages::parameters_of(model))
    if (std::ranges::find(units, unit_of(parameter, model)) != units.end())
      size += num_state_tensors(parameter) * local_shape(parameter, model, sharding).num_elements();
  return size;
}

std::int64_t size_of_kept(const RunSpec& spec, const ClusterShape& shape, int rank) {
  const std::vector<int> units = units_of(spec, shape, rank);
  if (state_sharding_of(spec, shape, rank).count == 1)
    return size_of_units(units, spec.model, sharding_of(shape, rank));
  const StateParts parts(spec, shape);
  std::int64_t size = 0;
  for (const int part : parts.kept_by(rank))
    for (const auto& parameter : stages::parameters_of(spec.model))
      if (std::ranges::find(units, unit_of(parameter, spec.model)) != units.end())
        size += num_state_tensors(parameter) * parts.region(part, parameter).num_elements();
  return size;
}

std::int64_t num_pieces(std::int64_t elements) {
  return (elements + kPieceElements - 1) / kPieceElements;
}

int turn_of_copy(const RunSpec& spec, std::int64_t step) {
  return static_cast<int>(step / spec.recovery.copy_interval % 2);
}

int chunk_of_copy(int rank, int turn) {
  return 2 * rank + turn;
}

std::vector<transport::Edge> copy_edges(const RunSpec& spec, const ClusterShape& shape,
                                        const CopyRing& ring, int rank) {
  std::vector<transport::Edge> edges;
  for (const int from : {ring.source_of(shape, rank), rank}) {
    if (from < 0 || !is_copied(shape, from)) continue;
    const std::int64_t size =
        size_of_units(units_of(spec, shape, from), spec.model, sharding_of(shape, from));
    if (size == 0) continue;
    for (const int turn : {0, 1})
      edges.push_back({.from = from,
                       .to = ring.keeper_of(shape, from),
                       .chunk = chunk_of_copy(from, turn),
                       .direction = transport::Direction::state,
                       .dtype = tensor::DType::f32,
                       .shape = {std::min(size, kPieceElements) + kSumElements},
                       .slots = static_cast<int>(num_pieces(size))});
  }
  return edges;
}

bool copies_state(const RunSpec& spec, const RunSpec::Mesh& mesh) {
  const bool one_has_it = mesh.is_even()
                              ? mesh.dp == mesh.ep
                              : std::ranges::count(mesh.widths, 1, &RunSpec::Width::dp) > 0;
  // Copies are of whole states. Slices of experts that one replica alone holds are nowhere else.
  const bool is_divided = mesh.ep > 1 && spec.data_parallel.division != stages::StateDivision::none;
  return spec.recovery.neighbour_copies && mesh.ranks_of_replica() * mesh.ep > 1 && one_has_it &&
         !is_divided;
}

bool copies_state(const RunSpec& spec, const ClusterShape& shape) {
  return copies_state(spec, shape.mesh) && shape.layout.copies() == 1;
}

int unit_of_layer(int layer, int num_layers) {
  if (layer == stages::kPositionsLayer) return num_layers + 2;
  return std::clamp(layer + 1, 0, num_layers + 1);
}

std::vector<int> units_of(const RunSpec& spec, const ClusterShape& shape, int rank) {
  const int stage = place_of(shape.mesh, rank).stage;
  const int layers = static_cast<int>(spec.model.num_hidden_layers);
  std::set<int> units;
  for (std::size_t i = 0; i < shape.layout.chunks.size(); ++i) {
    const Layout::Chunk& chunk = shape.layout.chunks[i];
    if (chunk.stage != stage) continue;
    for (int layer = chunk.first_layer; layer < chunk.end_layer; ++layer) units.insert(layer + 1);
    const bool head = shape.layout.is_last(i);
    const bool first = shape.layout.is_first(i);
    if (first || (head && spec.model.tie_word_embeddings)) units.insert(0);
    if (first && stages::traits_of(spec.model.kind).learns_positions) units.insert(layers + 2);
    if (head) units.insert(layers + 1);
  }
  return {units.begin(), units.end()};
}

std::optional<StatePlan> plan_state(const RunSpec& spec, const Configuration& kept,
                                    const Configuration& next,
                                    const std::map<std::uint64_t, StateInventory>& inventory,
                                    std::int64_t committed) {
  std::set<std::int64_t, std::greater<>> steps{committed, committed - 1};
  for (const auto& [incarnation, held] : inventory)
    for (const CopyRecord& copy : held.copies)
      if (copy.step < committed) steps.insert(copy.step);
  for (const std::int64_t step : steps)
    if (step >= 0)
      if (auto plan = plan_step(spec, kept, next, inventory, step)) return plan;
  return std::nullopt;
}

bool survives_loss_of_host(const RunSpec& spec, const ClusterShape& shape,
                           std::span<const int> host_of_rank) {
  const StateParts parts(spec, shape);
  const CopyRing ring = copy_ring(shape, host_of_rank);
  std::map<UnitPart, std::set<int>> hosts;  // that have it
  for (int rank = 0; rank < shape.num_ranks(); ++rank) {
    std::vector<int> holders{rank};
    if (copies_state(spec, shape) && is_copied(shape, rank))
      holders.push_back(ring.keeper_of(shape, rank));
    for (const int part : parts.kept_by(rank))
      for (const int unit : units_of(spec, shape, rank))
        for (const int holder : holders)
          hosts[{.unit = unit, .part = part}].insert(
              host_of_rank[static_cast<std::size_t>(holder)]);
  }
  return std::ranges::all_of(hosts, [](const auto& entry) { return entry.second.size() > 1; });
}

}  // namespace troupe::actors
