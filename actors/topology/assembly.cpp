#include "actors/topology/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "actors/topology/boundary.h"
#include "actors/topology/state/state_parts.h"
#include "actors/topology/state/state_plan.h"
#include "actors/topology/state/tied_parts.h"
#include "actors/topology/validation.h"
#include "schedules/analysis/ahead.h"
#include "stages/storage/xxh64.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

using schedules::ChunkCapacity;
using transport::Direction;
using transport::Edge;

std::vector<ChunkCapacity> enough_for_both(std::vector<ChunkCapacity> training,
                                           const std::vector<ChunkCapacity>& evaluation) {
  for (std::size_t i = 0; i < training.size(); ++i)
    training[i].forward_slots = std::max(training[i].forward_slots, evaluation[i].forward_slots);
  return training;
}

std::uint64_t digest_of(const Assembly& assembly, const RunSpec& spec, const ClusterShape& shape) {
  std::string text =
      fmt::format("{} {}", schedules::digest(assembly.plan), schedules::digest(assembly.eval_plan));
  for (const auto& c : shape.layout.chunks)
    text += fmt::format(" {}-{}@{}", c.first_layer, c.end_layer, c.stage);
  for (const auto& c : assembly.capacities)
    text += fmt::format(" {}/{}/{}/{}", c.live, c.deferred, c.forward_slots, c.backward_slots);
  const auto& [mode, method, num_layers, distributes, kept] = spec.recompute;
  text += fmt::format(" recompute {:d}/{:d}/{}/{:d}/{}", static_cast<int>(mode),
                      static_cast<int>(method), num_layers, distributes, kept);
  text += fmt::format(" tp{}{}{}x{}/{}x{} {}", shape.mesh.tp,
                      shape.mesh.sequence_parallel ? " sp " : " ", spec.batch.micro,
                      spec.batch.seq_len, static_cast<int>(spec.batch.documents),
                      spec.model.hidden_size, name_of(spec.model.dtype));
  if (shape.mesh.ep > 1) text += fmt::format(" ep{}", shape.mesh.ep);
  if (shape.mesh.etp == 1) text += " etp1";
  for (const RunSpec::Width& width : shape.mesh.widths)
    text += fmt::format(" {}x{}", width.dp, width.tp);
  return stages::xxh64(text);
}

/// The edges between chunk - 1 and chunk of the rank at `place`, whose stage has one of them.
void add_edges(std::vector<Edge>& edges, const Assembly& assembly, const RunSpec& spec,
               const RunSpec::Mesh& mesh, const RankPlace& place, int chunk) {
  const auto stage = [&](int c) {
    return assembly.plan.rank_of_chunk[static_cast<std::size_t>(c)];
  };
  const auto slots = [&](int c) { return assembly.capacities[static_cast<std::size_t>(c)]; };
  for (const Boundary& boundary : {Boundary{.from_stage = stage(chunk - 1),
                                  .to_stage = stage(chunk),
                                  .chunk = chunk,
                                  .direction = Direction::forward,
                                  .slots = slots(chunk).forward_slots},
                                   Boundary{.from_stage = stage(chunk),
                                   .to_stage = stage(chunk - 1),
                                   .chunk = chunk - 1,
                                   .direction = Direction::backward,
                                   .slots = slots(chunk - 1).backward_slots}}) {
    const auto over = edges_over(boundary, spec, mesh, place);
    edges.insert(edges.end(), over.begin(), over.end());
  }
}

stages::StageSpec stage_spec(const Assembly& assembly, const RunSpec& spec,
                             const ClusterShape& shape, const RankPlace& place,
                             const std::vector<int>& chunks) {
  stages::StageSpec stage{.model = spec.model,
                          .chunks = {},
                          .sharding = sharding_at(shape.mesh, place),
                          .recompute = spec.recompute,
                          .micro = shape.mesh.micro_of(place.stage, spec.batch.micro),
                          .lanes = shape.mesh.lanes_of(place.stage),
                          .row_multiple = row_multiple_of(spec, shape.mesh),
                          .seq_len = spec.batch.seq_len,
                          .documents = spec.batch.documents,
                          .global_tokens = spec.global_tokens(),
                          .seed = spec.seed,
                          .decay_all = spec.optimizer.decay_all};
  for (const int c : chunks) {
    const auto& chunk = shape.layout.chunks[static_cast<std::size_t>(c)];
    const auto& capacity = assembly.capacities[static_cast<std::size_t>(c)];
    stage.chunks.push_back({.first_layer = chunk.first_layer,
                            .end_layer = chunk.end_layer,
                            .embedding = assembly.plan.is_first(c),
                            .head = assembly.plan.is_last(c),
                            .owned = c < assembly.plan.chunks_per_copy(),
                            .live = capacity.live,
                            .deferred = capacity.deferred});
  }
  return stage;
}

}  // namespace

Assembly assemble(const RunSpec& spec, const ClusterShape& shape) {
  const RunSpec current = with_shape(spec, shape);
  Assembly assembly{
      .plan = make_plan(current), .eval_plan = make_eval_plan(current), .capacities = {}};
  const auto& chunks = shape.layout.chunks;
  if (static_cast<int>(chunks.size()) != assembly.plan.num_chunks() ||
      std::ranges::any_of(chunks, [&](const auto& chunk) {
        return chunk.end_layer > spec.model.num_hidden_layers;
      }))
    throw Error(ErrorKind::internal, "the layers of the model do not lie as the plan's chunks do");
  assembly.capacities = enough_for_both(schedules::capacities(assembly.plan),
                                        schedules::capacities(assembly.eval_plan));
  assembly.digest = digest_of(assembly, spec, shape);
  return assembly;
}

std::vector<int> tied_ranks_of(const RunSpec& spec, const ClusterShape& shape, RankPlace place) {
  const int first = shape.layout.chunks.front().stage, last = shape.layout.chunks.back().stage;
  std::vector<int> ranks;
  // If there are two copies, the embedding of one and the head of the other lie on the same rank,
  // and the exchange with the mirror sums both.
  if (!spec.model.tie_word_embeddings || spec.model.adapter || shape.layout.copies() > 1 ||
      first == last || (place.stage != first && place.stage != last))
    return ranks;
  const bool are_alike = shape.mesh.width(first) == shape.mesh.width(last);
  for (const int use : {first, last}) {
    place.stage = use;
    if (are_alike) {
      ranks.push_back(rank_at(shape.mesh, place));
      continue;
    }
    const int tp = shape.mesh.width(use).tp;
    const bool has_same = tp == shape.mesh.width(use == first ? last : first).tp;
    for (int shard = 0; shard < (has_same ? 1 : tp); ++shard) {
      const RankPlace of{.stage = use, .shard = has_same ? place.shard : shard};
      std::ranges::copy(ranks_along(shape.mesh, of, Axis::dp), std::back_inserter(ranks));
    }
  }
  return ranks;
}

RankAssembly part_of(const Assembly& assembly, const RunSpec& spec, const ClusterShape& shape,
                     int rank) {
  RankAssembly part{.place = place_of(shape.mesh, rank)};
  const auto stage = static_cast<std::size_t>(part.place.stage);
  const int num_chunks = assembly.plan.num_chunks();
  const auto is_here = [&](int c) {
    return assembly.plan.rank_of_chunk[static_cast<std::size_t>(c)] == part.place.stage;
  };
  for (int c = 0; c < num_chunks; ++c)
    if (is_here(c)) part.chunks.push_back(c);
  part.stage = stage_spec(assembly, spec, shape, part.place, part.chunks);
  part.stage.state = state_sharding_of(spec, shape, rank);
  part.actions = assembly.plan.actions[stage];
  part.eval_actions = assembly.eval_plan.actions[stage];
  part.num_ahead = schedules::actions_ahead(assembly.plan, part.place.stage);
  part.inputs_ahead = schedules::inputs_ahead(assembly.plan, part.place.stage);

  for (int c = 0; c < num_chunks; ++c)
    if (!assembly.plan.is_first(c) && (is_here(c - 1) || is_here(c)))
      add_edges(part.edges, assembly, spec, shape.mesh, part.place, c);

  const int mirror = mirror_of(shape, rank);
  if (mirror >= 0) part.mirror_ranks = {std::min(rank, mirror), std::max(rank, mirror)};
  part.tied_ranks = tied_ranks_of(spec, shape, part.place);
  if (!part.tied_ranks.empty() && exchanges_tied_sums(spec, shape))
    part.tied_parts = tied_parts_of(spec, shape, part.tied_ranks, rank);
  const auto [dp, tp] = shape.mesh.width(part.place.stage);
  if (dp > 1) part.replica_ranks = ranks_along(shape.mesh, part.place, Axis::dp);
  if (tp > 1) part.shard_ranks = ranks_along(shape.mesh, part.place, Axis::tp);
  if (const int sharing = stages::shards_per_kv_head(spec.model, tp); sharing > 1) {
    const auto first_of_head = part.shard_ranks.begin() + part.place.shard / sharing * sharing;
    part.kv_head_ranks.assign(first_of_head, first_of_head + sharing);
  }
  return part;
}

RankAssembly part_of_run(const Assembly& assembly, const RunSpec& spec, const ClusterShape& shape,
                         int rank, const CopyRing& ring) {
  RankAssembly part = part_of(assembly, spec, shape, rank);
  part.stage.keep_previous = copies_state(spec, shape) || updates_ahead(spec, shape);
  if (!copies_state(spec, shape)) return part;
  const auto edges = copy_edges(spec, shape, ring, rank);
  part.edges.insert(part.edges.end(), edges.begin(), edges.end());
  return part;
}

std::vector<int> sharing_ranks(const RankAssembly& part) {
  const int count = part.stage.state.count;
  if (count == 1) return part.replica_ranks;
  const auto first = part.replica_ranks.begin() + part.place.replica / count * count;
  return {first, first + count};
}

bool is_first_holder(const RankAssembly& part) {
  return part.place.replica < std::max(part.stage.state.count, part.stage.sharding.ep);
}

bool is_told_of(const RankAssembly& part, const stages::Parameter& parameter) {
  const stages::Sharding& sharding = part.stage.sharding;
  return part.place.replica < part.stage.state.count ||
         (parameter.is_expert && part.place.replica < sharding.ep);
}

std::vector<int> instance_ranks(const RankAssembly& part) {
  const auto count = static_cast<std::size_t>(part.stage.state.count);
  std::vector<int> ranks;
  if (count == 1 || count == part.replica_ranks.size()) return ranks;
  for (std::size_t i = static_cast<std::size_t>(part.place.replica) % count;
       i < part.replica_ranks.size(); i += count)
    ranks.push_back(part.replica_ranks[i]);
  return ranks;
}

std::vector<int> expert_sharing_ranks(const RankAssembly& part) {
  const auto ep = static_cast<std::size_t>(part.stage.sharding.ep);
  const std::vector<int> sharing = sharing_ranks(part);
  std::vector<int> ranks;
  if (ep == 1 || sharing.size() == ep) return ranks;
  for (auto i = static_cast<std::size_t>(part.stage.sharding.ep_member); i < sharing.size();
       i += ep)
    ranks.push_back(sharing[i]);
  return ranks;
}

std::vector<int> expert_ranks(const RankAssembly& part) {
  const int ep = part.stage.sharding.ep;
  if (ep == 1) return {};
  const auto first = part.replica_ranks.begin() + part.place.replica / ep * ep;
  return {first, first + ep};
}

std::set<int> peers_of(const RankAssembly& part) {
  std::set<int> peers;
  peers.insert(part.tied_ranks.begin(), part.tied_ranks.end());
  peers.insert(part.mirror_ranks.begin(), part.mirror_ranks.end());
  peers.insert(part.replica_ranks.begin(), part.replica_ranks.end());
  peers.insert(part.shard_ranks.begin(), part.shard_ranks.end());
  for (const Edge& edge : part.edges) peers.insert({edge.from, edge.to});
  return peers;
}

}  // namespace troupe::actors
