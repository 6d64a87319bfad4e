#include "actors/topology/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "actors/topology/state_parts.h"
#include "actors/topology/state_plan.h"
#include "stages/stage/row_sizes.h"
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
  return stages::xxh64(text);
}

/// The rank that holds a chunk, in the replica and the shard of `place`.
int rank_of_chunk(const Assembly& assembly, const RunSpec::Mesh& mesh, RankPlace place, int chunk) {
  place.stage = assembly.plan.rank_of_chunk[static_cast<std::size_t>(chunk)];
  return rank_at(mesh, place);
}

/// The edges between chunk - 1 and chunk in the replica of `place`. Each shard has edges of its
/// own, to the same shard of the other stage, which carry its slice.
void add_edges(std::vector<Edge>& edges, const Assembly& assembly, const RunSpec& spec,
               const RunSpec::Mesh& mesh, const RankPlace& place, int chunk) {
  const auto at = [&](int c) { return rank_of_chunk(assembly, mesh, place, c); };
  const auto slots = [&](int c) { return assembly.capacities[static_cast<std::size_t>(c)]; };
  const auto& batch = spec.batch;
  const auto rows = stages::row_sizes(batch.documents, batch.micro * batch.seq_len, mesh.tp);
  const tensor::Shape shape =
      stages::edge_shape(rows.capacity, spec.model.hidden_size, sharding_at(mesh, place));
  edges.push_back({.from = at(chunk - 1),
                   .to = at(chunk),
                   .chunk = chunk,
                   .direction = Direction::forward,
                   .dtype = spec.model.dtype,
                   .shape = shape,
                   .slots = slots(chunk).forward_slots});
  edges.push_back({.from = at(chunk),
                   .to = at(chunk - 1),
                   .chunk = chunk - 1,
                   .direction = Direction::backward,
                   .dtype = spec.model.dtype,
                   .shape = shape,
                   .slots = slots(chunk - 1).backward_slots});
}

stages::StageSpec stage_spec(const Assembly& assembly, const RunSpec& spec, const Layout& layout,
                             const std::vector<int>& chunks, const stages::Sharding& sharding) {
  stages::StageSpec stage{.model = spec.model,
                          .chunks = {},
                          .sharding = sharding,
                          .recompute = spec.recompute,
                          .micro = spec.batch.micro,
                          .seq_len = spec.batch.seq_len,
                          .documents = spec.batch.documents,
                          .global_tokens = spec.global_tokens(),
                          .seed = spec.seed,
                          .decay_all = spec.optimizer.decay_all};
  for (const int c : chunks) {
    const auto& chunk = layout.chunks[static_cast<std::size_t>(c)];
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
  part.stage =
      stage_spec(assembly, spec, shape.layout, part.chunks, sharding_at(shape.mesh, part.place));
  part.stage.state = state_sharding_of(spec, shape, rank);
  part.actions = assembly.plan.actions[stage];
  part.eval_actions = assembly.eval_plan.actions[stage];

  for (int c = 0; c < num_chunks; ++c)
    if (!assembly.plan.is_first(c) && (is_here(c - 1) || is_here(c)))
      add_edges(part.edges, assembly, spec, shape.mesh, part.place, c);

  const int first = rank_of_chunk(assembly, shape.mesh, part.place, 0);
  const int last = rank_of_chunk(assembly, shape.mesh, part.place, num_chunks - 1);
  const int mirror = mirror_of(shape, rank);
  if (mirror >= 0) part.mirror_ranks = {std::min(rank, mirror), std::max(rank, mirror)};
  // If there are two copies, the embedding of one and the head of the other lie on the same rank,
  // and the exchange with the mirror sums both.
  if (spec.model.tie_word_embeddings && first != last && mirror < 0 &&
      (rank == first || rank == last))
    part.tied_ranks = {first, last};
  if (shape.mesh.dp > 1) part.replica_ranks = ranks_along(shape.mesh, part.place, Axis::dp);
  if (shape.mesh.tp > 1) part.shard_ranks = ranks_along(shape.mesh, part.place, Axis::tp);
  if (const int sharing = stages::shards_per_kv_head(spec.model, shape.mesh.tp); sharing > 1) {
    const auto first_of_head = part.shard_ranks.begin() + part.place.shard / sharing * sharing;
    part.kv_head_ranks.assign(first_of_head, first_of_head + sharing);
  }
  return part;
}

RankAssembly part_of_run(const Assembly& assembly, const RunSpec& spec, const ClusterShape& shape,
                         int rank, const CopyRing& ring) {
  RankAssembly part = part_of(assembly, spec, shape, rank);
  part.stage.keep_previous = copies_state(spec, shape);
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

std::vector<int> instance_ranks(const RankAssembly& part) {
  const auto count = static_cast<std::size_t>(part.stage.state.count);
  std::vector<int> ranks;
  if (count == 1 || count == part.replica_ranks.size()) return ranks;
  for (std::size_t i = static_cast<std::size_t>(part.place.replica) % count;
       i < part.replica_ranks.size(); i += count)
    ranks.push_back(part.replica_ranks[i]);
  return ranks;
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
