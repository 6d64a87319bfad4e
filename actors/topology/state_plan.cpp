#include "actors/topology/state_plan.h"

#include <algorithm>
#include <set>

namespace troupe::actors {
namespace {

/// A place from which a unit can be taken.
struct Source {
  int member = 0;  ///< member of the new epoch that holds it
  int copy_of = -1;
};

bool has(const StateInventory& held, std::int64_t step) {
  return held.step == step || (held.has_previous && held.step == step + 1);
}

/// All places that hold the state of `step`, by unit; own state comes before copies.
std::map<int, std::vector<Source>> find_sources(
    const RunSpec& spec, const Epoch& kept, const Epoch& next,
    const std::map<std::uint64_t, StateInventory>& inventory, std::int64_t step) {
  std::map<int, std::vector<Source>> own, copied;
  for (const auto& [incarnation, held] : inventory) {
    const int member = next.rank_of(incarnation);
    const int rank = kept.rank_of(incarnation);
    if (member < 0) continue;
    if (rank >= 0 && rank < kept.num_ranks() && has(held, step))
      for (const int unit : units_of(spec, kept.shape, rank))
        own[unit].push_back({.member = member});
    for (const CopyRecord& copy : held.copies)
      if (copy.step == step && copy.rank < kept.num_ranks())
        for (const int unit : units_of(spec, kept.shape, copy.rank))
          copied[unit].push_back({.member = member, .copy_of = copy.rank});
  }
  for (auto& [unit, sources] : copied)
    own[unit].insert(own[unit].end(), sources.begin(), sources.end());
  return own;
}

/// The nearest source: the receiver itself, else a member of its replica, else any other.
Source best_source(const std::vector<Source>& sources, int to, const RunSpec::Mesh& mesh) {
  const auto distance = [&](const Source& source) {
    if (source.member == to) return 0;
    return place_of(mesh, source.member).replica == place_of(mesh, to).replica ? 1 : 2;
  };
  return *std::ranges::min_element(sources, {}, distance);
}

std::vector<int> copied_ranks(const RunSpec& spec, const Epoch& kept, const Epoch& next,
                              const std::map<std::uint64_t, StateInventory>& inventory,
                              std::int64_t step) {
  const bool alike = kept.shape.mesh == next.shape.mesh && kept.shape.layout == next.shape.layout;
  std::vector<int> ranks;
  for (int rank = 0; rank < next.num_ranks() && alike && copies_state(spec, next.shape); ++rank) {
    const int holder = neighbour_of(next.shape, rank, 1);
    const auto held = inventory.find(next.members.at(holder).incarnation);
    const CopyRecord wanted{.rank = rank, .step = step};
    if (held != inventory.end() &&
        std::ranges::find(held->second.copies, wanted) != held->second.copies.end())
      ranks.push_back(rank);
  }
  return ranks;
}

std::optional<StatePlan> plan_step(const RunSpec& spec, const Epoch& kept, const Epoch& next,
                                   const std::map<std::uint64_t, StateInventory>& inventory,
                                   std::int64_t step) {
  const auto sources = find_sources(spec, kept, next, inventory, step);
  StatePlan plan{.step = step, .from_memory = true};
  for (int rank = 0; rank < next.num_ranks(); ++rank) {
    for (const int unit : units_of(spec, next.shape, rank)) {
      const auto found = sources.find(unit);
      if (found == sources.end()) return std::nullopt;
      const Source source = best_source(found->second, rank, next.shape.mesh);
      plan.moves.push_back(
          {.unit = unit, .from = source.member, .to = rank, .copy_of = source.copy_of});
    }
  }
  plan.copied = copied_ranks(spec, kept, next, inventory, step);
  return plan;
}

}  // namespace

int unit_of(const stages::ParameterInfo& parameter, const stages::ModelConfig& model) {
  return unit_of_layer(parameter.layer, static_cast<int>(model.num_hidden_layers));
}

std::int64_t size_of_units(std::span<const int> units, const stages::ModelConfig& model) {
  std::int64_t size = 0;
  for (const auto& parameter : stages::parameters_of(model))
    if (std::ranges::find(units, unit_of(parameter, model)) != units.end())
      size += kTensorsOfParameter * parameter.shape.num_elements();
  return size;
}

std::int64_t num_pieces(std::int64_t elements) {
  return (elements + kPieceElements - 1) / kPieceElements;
}

int chunk_of_copy(int rank, std::int64_t step) {
  return 2 * rank + static_cast<int>(step % 2);
}

std::vector<transport::Edge> copy_edges(const RunSpec& spec, const ClusterShape& shape, int rank) {
  std::vector<transport::Edge> edges;
  for (const int from : {neighbour_of(shape, rank, -1), rank}) {
    const std::int64_t size = size_of_units(units_of(spec, shape, from), spec.model);
    if (size == 0) continue;
    for (const int parity : {0, 1})
      edges.push_back({.from = from,
                       .to = neighbour_of(shape, from, 1),
                       .chunk = chunk_of_copy(from, parity),
                       .direction = transport::Direction::state,
                       .dtype = tensor::DType::f32,
                       .shape = {std::min(size, kPieceElements) + kSumElements},
                       .slots = static_cast<int>(num_pieces(size))});
  }
  return edges;
}

bool copies_state(const RunSpec& spec, const ClusterShape& shape) {
  return spec.recovery.neighbour_copies && spec.recovery.on_failure != RunSpec::OnFailure::stop &&
         shape.mesh.pp > 1 && shape.mesh.dp == 1 && shape.layout.copies() == 1;
}

int neighbour_of(const ClusterShape& shape, int rank, int distance) {
  const RankPlace place = place_of(shape.mesh, rank);
  const int pp = shape.mesh.pp;
  return rank_at(shape.mesh,
                 {.replica = place.replica, .stage = (place.stage + distance + pp) % pp});
}

int unit_of_layer(int layer, int num_layers) {
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
    if (shape.layout.is_first(i) || (head && spec.model.tie_word_embeddings)) units.insert(0);
    if (head) units.insert(layers + 1);
  }
  return {units.begin(), units.end()};
}

std::optional<StatePlan> plan_state(const RunSpec& spec, const Epoch& kept, const Epoch& next,
                                    const std::map<std::uint64_t, StateInventory>& inventory,
                                    std::int64_t committed) {
  for (const std::int64_t step : {committed, committed - 1})
    if (step >= 0)
      if (auto plan = plan_step(spec, kept, next, inventory, step)) return plan;
  return std::nullopt;
}

}  // namespace troupe::actors
