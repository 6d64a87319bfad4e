#include "actors/epoch.h"

#include <algorithm>

#include "actors/layer_split.h"

namespace troupe::actors {

int Epoch::rank_of(std::uint64_t incarnation) const {
  const auto found = std::ranges::find(members, incarnation, &Member::incarnation);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

RankPlace place_of(const Shape& shape, int rank) {
  return {.replica = rank / shape.mesh.pp, .stage = rank % shape.mesh.pp};
}

std::string name_of(const Shape& shape, int rank) {
  const RankPlace place = place_of(shape, rank);
  return "rank " + std::to_string(rank) + " (replica " + std::to_string(place.replica) +
         ", stage " + std::to_string(place.stage) + ")";
}

int mirror_of(const Shape& shape, int rank) {
  if (shape.layout.copies() == 1) return -1;
  const auto [replica, stage] = place_of(shape, rank);
  return replica * shape.mesh.pp + shape.mesh.pp - 1 - stage;
}

Shape first_shape(const RunSpec& spec) {
  const schedules::Plan plan = make_plan(spec);
  const auto layers = split_layers(parse_split(spec.layout), spec.model, plan.chunks_per_copy());
  return {.mesh = spec.mesh,
          .schedule = spec.schedule,
          .layout = layout_of(layers, plan.rank_of_chunk)};
}

}  // namespace troupe::actors
