#include "actors/topology/state/state_parts.h"

#include <utility>

#include "stages/decoder/parameters/parameters.h"
#include "stages/model/sharding.h"

namespace troupe::actors {
namespace {

bool keeps_twins(const RunSpec& spec, const ClusterShape& shape) {
  return spec.recovery.neighbour_copies && shape.layout.copies() == 1;
}

/// What decides which parameters a rank's stage has, and how they are cut.
stages::StageSpec parameters_of_rank(const RunSpec& spec, const ClusterShape& shape, int rank) {
  stages::StageSpec stage{.model = spec.model,
                          .chunks = {},
                          .sharding = sharding_of(shape, rank),
                          .state = state_sharding_of(spec, shape, rank)};
  for (std::size_t i = 0; i < shape.layout.chunks.size(); ++i)
    if (const auto& chunk = shape.layout.chunks[i]; chunk.stage == place_of(shape.mesh, rank).stage)
      stage.chunks.push_back({.first_layer = chunk.first_layer,
                              .end_layer = chunk.end_layer,
                              .embedding = shape.layout.is_first(i),
                              .head = shape.layout.is_last(i)});
  return stage;
}

}  // namespace

int num_instances(const RunSpec& spec, int dp) {
  const int wanted = spec.data_parallel.instances;
  return dp % wanted == 0 && dp / wanted >= 2 ? wanted : 1;
}

bool divides_state(const RunSpec& spec, const ClusterShape& shape) {
  return spec.data_parallel.division != stages::StateDivision::none && shape.mesh.dp > 1;
}

bool divides_state(const RunSpec& spec, const ClusterShape& shape, int stage) {
  return divides_state(spec, shape) && shape.mesh.width(stage).dp > 1;
}

stages::StateSharding state_sharding_of(const RunSpec& spec, const ClusterShape& shape, int rank) {
  const RankPlace place = place_of(shape.mesh, rank);
  if (!divides_state(spec, shape, place.stage)) return {};
  const int dp = shape.mesh.width(place.stage).dp;
  const int instances = num_instances(spec, dp), count = dp / instances;
  return {.count = count,
          .index = place.replica % count,
          .buckets = spec.data_parallel.buckets,
          .twins = instances == 1 && count > shape.mesh.ep && keeps_twins(spec, shape),
          .gradients = spec.data_parallel.divides_gradients(),
          // A frozen base is whole on each replica, and an adapter is small.
          .weights = spec.data_parallel.divides_weights() && !spec.model.adapter,
          .prefetch = spec.data_parallel.prefetch,
          .reshards = spec.data_parallel.reshards,
          .ep = shape.mesh.ep};
}

StateParts::StateParts(const RunSpec& spec, const ClusterShape& shape)
    : spec_(spec), shape_(shape) {
  for (int stage = 0; stage < shape.mesh.pp; ++stage) {
    if (!divides_state(spec, shape, stage)) continue;
    RowCuts& cuts = row_cuts_[stage];
    for (int replica = 0; replica < shape.mesh.ep; ++replica) {  // with other experts each
      const int rank = rank_at(shape.mesh, {.replica = replica, .stage = stage});
      auto layout = stages::lay_out_parameters(parameters_of_rank(spec, shape, rank));
      for (auto& entry : layout.entries) cuts[entry.info.name] = std::move(entry.row_cuts);
    }
  }
}

std::vector<int> StateParts::kept_by(int rank) const {
  RankPlace place = place_of(shape_.mesh, rank);
  if (!are_of_stages()) {
    const int member = place.replica % shape_.mesh.ep;
    return {rank_at(shape_.mesh, {.replica = member, .shard = place.shard})};
  }
  const stages::StateSharding state = state_sharding_of(spec_, shape_, rank);
  place.replica = state.index;
  std::vector<int> parts{rank_at(shape_.mesh, place)};
  if (state.twin() < 0) return parts;
  place.replica = state.twin();
  parts.push_back(rank_at(shape_.mesh, place));
  return parts;
}

std::vector<int> StateParts::of_stage(int stage) const {
  std::vector<int> parts;
  const auto [dp, tp] = shape_.mesh.width(stage);
  const int slices =
      divides_state(spec_, shape_, stage) ? dp / num_instances(spec_, dp) : shape_.mesh.ep;
  for (int slice = 0; slice < slices; ++slice)
    for (int shard = 0; shard < tp; ++shard)
      parts.push_back(rank_at(
          shape_.mesh, {.replica = slice, .stage = are_of_stages() ? stage : 0, .shard = shard}));
  return parts;
}

tensor::Region StateParts::region(int part, const stages::ParameterInfo& info) const {
  const tensor::Region of_shard = stages::region_of(info, spec_.model, sharding_of(part));
  const RankPlace place = place_of(shape_.mesh, part);
  const auto of_stage = row_cuts_.find(place.stage);
  if (of_stage == row_cuts_.end()) return of_shard;
  const auto cuts = of_stage->second.find(info.name);
  if (cuts == of_stage->second.end()) return {};
  const bool is_expert = shape_.mesh.ep > 1 && info.expert >= 0;
  const int slice = is_expert ? place.replica / shape_.mesh.ep : place.replica;
  return stages::cut_region(of_shard, cuts->second, slice);
}

bool StateParts::gives(int part, const stages::ParameterInfo& info, const StateParts& to,
                       int into) const {
  const bool in_several = info.expert < 0 && shape_.mesh.ep > 1 && row_cuts_.empty();
  if (!in_several) return true;
  const bool are_alike = to.shape_.mesh.ep == shape_.mesh.ep && to.row_cuts_.empty();
  return sharding_of(part).ep_member == (are_alike ? to.sharding_of(into).ep_member : 0);
}

tensor::Region moved_region(const stages::ParameterInfo& info, const stages::ModelConfig& model,
                            const StateParts& from, int part, const StateParts& to, int into) {
  if (!from.gives(part, info, to, into)) return {};
  const tensor::Region of_shards =
      stages::moved_region(info, model, from.sharding_of(part), to.sharding_of(into));
  return intersection(of_shards, intersection(from.region(part, info), to.region(into, info)));
}

}  // namespace troupe::actors
