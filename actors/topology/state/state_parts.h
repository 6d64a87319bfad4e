#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/topology/configuration.h"
#include "stages/model/model_config.h"
#include "stages/stage/slices.h"
#include "tensor/values/region.h"

namespace troupe::actors {

/// The instances of a shape with `dp` replicas: groups of consecutive replicas, each of which
/// divides the training state among its members. As many as the run asks for, or one if, after the
/// loss of replicas, they no longer have as many members each, at least two.
int num_instances(const RunSpec& spec, int dp);
/// Whether the replicas of a shape, or of one stage of it, divide the training state of their
/// stage.
bool divides_state(const RunSpec& spec, const ClusterShape& shape);
bool divides_state(const RunSpec& spec, const ClusterShape& shape, int stage);
/// How a rank's replica takes part in that. With `recovery.neighbour_copies` each replica keeps the
/// slice of another one too, its twin, unless a mirror or another instance has it, or if no other
/// one holds the same experts.
stages::StateSharding state_sharding_of(const RunSpec& spec, const ClusterShape& shape, int rank);

/// The parts into which a shape divides the training state, so that each part lies on one rank
/// whole, and maybe on others alike. If the replicas divide it, a part is the slice of one rank of
/// the first instance, and has its name. Else it is what one shard has of the whole model, or,
/// where stages differ in width, of its stage, and is named by the first rank with that shard, and
/// of replicas that share experts out by the first with these experts: what all of them hold is in
/// several parts then. Regions are those of whole parameters.
class StateParts {
 public:
  StateParts(const RunSpec& spec, const ClusterShape& shape);

  /// The parts that a rank keeps: its own; with twins then that of another (StateSharding::twin).
  std::vector<int> kept_by(int rank) const;
  /// The parts that together hold what ranks of a stage do.
  std::vector<int> of_stage(int stage) const;
  /// Whether each stage has parts of its own.
  bool are_of_stages() const { return !row_cuts_.empty() || !shape_.mesh.is_even(); }
  stages::Sharding sharding_of(int part) const { return actors::sharding_of(shape_, part); }
  /// What a part has of a parameter; without elements if it has none.
  tensor::Region region(int part, const stages::ParameterInfo& info) const;
  /// Whether the part is the one, of several that have the same elements of a parameter, which
  /// gives them to a part of another shape.
  bool gives(int part, const stages::ParameterInfo& info, const StateParts& to, int into) const;

 private:
  using RowCuts = std::map<std::string, std::vector<std::int64_t>>;  // by parameter

  const RunSpec& spec_;
  const ClusterShape& shape_;
  std::map<int, RowCuts> row_cuts_;  // by stage that is divided, alike for all its shards
};

/// The elements of a parameter that `part` of one shape gives to `into`, a part of another one.
/// They are in both. What several shards have alike is given by its owner, unless both shapes have
/// as many shards.
tensor::Region moved_region(const stages::ParameterInfo& info, const stages::ModelConfig& model,
                            const StateParts& from, int part, const StateParts& to, int into);

}  // namespace troupe::actors
