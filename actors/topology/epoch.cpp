#include "actors/topology/epoch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "actors/topology/layer_split.h"

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

std::string to_string(const ClusterShape& shape) {
  const auto& [kind, chunks, csv, costs] = shape.schedule;
  const int copies = shape.layout.copies();
  return fmt::format("pp {} x dp {}, {}{}, layers {}{}", shape.mesh.pp, shape.mesh.dp, kind,
                     chunks > 1 ? fmt::format(" with {} chunks a stage", chunks) : "",
                     fmt::join(layers_of(shape.layout), ","),
                     copies > 1 ? fmt::format(" in {} copies", copies) : "");
}

RankPlace place_of(const RunSpec::Mesh& mesh, int rank) {
  return {.replica = rank / mesh.pp, .stage = rank % mesh.pp};
}

int rank_at(const RunSpec::Mesh& mesh, RankPlace place) {
  return place.replica * mesh.pp + place.stage;
}

std::string name_of(const ClusterShape& shape, int rank) {
  const RankPlace place = place_of(shape.mesh, rank);
  return "rank " + std::to_string(rank) + " (replica " + std::to_string(place.replica) +
         ", stage " + std::to_string(place.stage) + ")";
}

int mirror_of(const ClusterShape& shape, int rank) {
  if (shape.layout.copies() == 1) return -1;
  const auto [replica, stage] = place_of(shape.mesh, rank);
  return rank_at(shape.mesh, {.replica = replica, .stage = shape.mesh.pp - 1 - stage});
}

ClusterShape first_shape(const RunSpec& spec) {
  const schedules::Plan plan = make_plan(spec);
  const auto layers = split_layers(parse_split(spec.layout), spec.model, plan.chunks_per_copy());
  return {.mesh = spec.mesh,
          .schedule = spec.schedule,
          .layout = layout_of(layers, plan.rank_of_chunk)};
}

}  // namespace troupe::actors
