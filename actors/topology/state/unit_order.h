#pragma once

#include <vector>

#include "actors/topology/program.h"
#include "stages/replicas/step_collectives.h"

namespace troupe::actors {

/// The order in which the nodes of a program read weights that are gathered for them. Forwards and
/// backwards each run in the program's order, also those of a pair.
stages::UnitOrder unit_order(const Program& program, const stages::Stage& stage);
/// The order for a stage that is only planned.
stages::UnitOrder unit_order(const Program& program, const stages::StageSpec& stage);

/// What a rank exchanges with replicas and instances in a step.
struct ReplicaTraffic {
  /// The collectives with which it completes gradients and gathers weights.
  std::vector<stages::PlannedCollectives> collectives;
  stages::PlannedGathers gathers;
};
ReplicaTraffic replica_traffic(const RunSpec& spec, const ClusterShape& shape,
                               const RankAssembly& part);

}  // namespace troupe::actors
