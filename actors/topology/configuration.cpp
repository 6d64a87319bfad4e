#include "actors/topology/configuration.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "actors/topology/layers/layer_split.h"

namespace troupe::actors {

void Members::add(int rank, Member member) {
  ranks_[member.incarnation] = rank;
  by_rank_[rank] = std::move(member);
}

void Members::push_back(Member member) {
  add(by_rank_.empty() ? 0 : by_rank_.rbegin()->first + 1, std::move(member));
}

void Members::pop_back() {
  ranks_.erase(back().incarnation);
  by_rank_.erase(std::prev(by_rank_.end()));
}

int Members::rank_of(std::uint64_t incarnation) const {
  const auto found = ranks_.find(incarnation);
  return found == ranks_.end() ? -1 : found->second;
}

int Members::rank_of_id(int id) const {
  const auto found =
      std::ranges::find_if(by_rank_, [id](const auto& member) { return member.second.id == id; });
  return found == by_rank_.end() ? -1 : found->first;
}

std::string to_string(const RunSpec::Mesh& mesh) {
  const char* const sequence = mesh.sequence_parallel ? " with sequence parallelism" : "";
  if (mesh.is_even())
    return fmt::format("pp {} x dp {}{}{}", mesh.pp, mesh.dp,
                       mesh.ep > 1 ? fmt::format(" (ep {})", mesh.ep) : "",
                       mesh.tp > 1 ? fmt::format(" x tp {}{}", mesh.tp, sequence) : "");
  std::vector<std::string> stages;
  for (const RunSpec::Width& width : mesh.widths)
    stages.push_back(
        fmt::format("dp {}{}", width.dp, mesh.tp > 1 ? fmt::format(" x tp {}", width.tp) : ""));
  return fmt::format("pp {} ({}){}", mesh.pp, fmt::join(stages, " | "), sequence);
}

std::string to_string(const ClusterShape& shape) {
  const auto& [kind, chunks, csv, costs] = shape.schedule;
  const int copies = shape.layout.copies();
  return fmt::format("{}, {}{}, layers {}{}", to_string(shape.mesh), kind,
                     chunks > 1 ? fmt::format(" with {} chunks a stage", chunks) : "",
                     fmt::join(layers_of(shape.layout), ","),
                     copies > 1 ? fmt::format(" in {} copies", copies) : "");
}

std::vector<HostShare> host_shares(const Configuration& configuration) {
  std::map<std::string, std::map<int, int>> hosts;  // ranks of each by id
  for (const auto& [rank, member] : configuration.members)
    if (rank < configuration.num_ranks()) hosts[member.host][member.id] = rank;
  std::vector<HostShare> shares(static_cast<std::size_t>(configuration.num_ranks()));
  for (const auto& [host, ranks] : hosts) {
    int place = 0;
    for (const auto& [id, rank] : ranks)
      shares[static_cast<std::size_t>(rank)] = {.ranks = static_cast<int>(ranks.size()),
                                                .place = place++};
  }
  return shares;
}

RankPlace place_of(const RunSpec::Mesh& mesh, int rank) {
  if (mesh.is_even())
    return {.replica = rank / mesh.ranks_of_replica(),
            .stage = rank / mesh.tp % mesh.pp,
            .shard = rank % mesh.tp};
  RankPlace place{.shard = rank};
  for (; place.replica < mesh.dp; ++place.replica)
    for (place.stage = 0; place.stage < mesh.pp; ++place.stage) {
      const RunSpec::Width width = mesh.width(place.stage);
      if (place.replica >= width.dp) continue;
      if (place.shard < width.tp) return place;
      place.shard -= width.tp;
    }
  return place;  // of a member beyond the ranks: in no replica that the mesh has
}

int rank_at(const RunSpec::Mesh& mesh, RankPlace place) {
  if (mesh.is_even()) return (place.replica * mesh.pp + place.stage) * mesh.tp + place.shard;
  int rank = place.shard;
  for (int replica = 0; replica < place.replica; ++replica) rank += mesh.ranks_of_replica(replica);
  for (int stage = 0; stage < place.stage; ++stage)
    if (place.replica < mesh.width(stage).dp) rank += mesh.width(stage).tp;
  return rank;
}

bool has_place(const RunSpec::Mesh& mesh, const RankPlace& place) {
  if (place.stage >= mesh.pp) return false;
  const auto [dp, tp] = mesh.width(place.stage);
  return place.replica < dp && place.shard < tp;
}

int first_rank_of(const RunSpec::Mesh& mesh, int replica) {
  int rank = 0;
  for (int before = 0; before < replica; ++before) rank += mesh.ranks_of_replica(before);
  return rank;
}

stages::Sharding sharding_at(const RunSpec::Mesh& mesh, const RankPlace& place) {
  const int size = mesh.width(place.stage).tp;
  return {.size = size,
          .shard = place.shard,
          .sequence_parallel = mesh.sequence_parallel && size > 1,
          .ep = mesh.ep,
          .ep_member = place.replica % mesh.ep,
          .whole_experts = mesh.etp == 1 && size > 1};
}

stages::Sharding sharding_of(const ClusterShape& shape, int rank) {
  return sharding_at(shape.mesh, place_of(shape.mesh, rank));
}

std::vector<int> ranks_along(const RunSpec::Mesh& mesh, RankPlace place, Axis axis) {
  std::vector<int> ranks;
  const auto [dp, tp] = mesh.width(place.stage);
  int& at = axis == Axis::dp ? place.replica : place.shard;
  for (at = 0; at < (axis == Axis::dp ? dp : tp); ++at) ranks.push_back(rank_at(mesh, place));
  return ranks;
}

std::string name_of(const ClusterShape& shape, int rank) {
  const RankPlace place = place_of(shape.mesh, rank);
  return fmt::format(
      "rank {} (replica {}, stage {}{})", rank, place.replica, place.stage,
      shape.mesh.width(place.stage).tp > 1 ? fmt::format(", shard {}", place.shard) : "");
}

int mirror_of(const ClusterShape& shape, int rank) {
  if (shape.layout.copies() == 1) return -1;
  RankPlace place = place_of(shape.mesh, rank);
  place.stage = shape.mesh.pp - 1 - place.stage;
  return rank_at(shape.mesh, place);
}

ClusterShape first_shape(const RunSpec& spec) {
  const schedules::Plan plan = make_plan(spec);
  const auto layers = split_layers(parse_split(spec.layout), spec.model, plan.chunks_per_copy());
  return {.mesh = spec.mesh,
          .schedule = spec.schedule,
          .layout = layout_of(layers, plan.rank_of_chunk)};
}

RunSpec with_shape(RunSpec spec, const ClusterShape& shape) {
  spec.mesh = shape.mesh;
  spec.schedule = shape.schedule;
  return spec;
}

}  // namespace troupe::actors
