#pragma once

#include <vector>

#include "actors/topology/program.h"
#include "stages/data_parallel/step_collectives.h"

namespace troupe::actors {

/// The order in which the nodes of a program read weights that are gathered for them. Forwards and
/// backwards each run in the program's order, also those of a pair.
stages::UnitOrder unit_order(const Program& program, const stages::Stage& stage);
/// The order for a stage that is only planned.
stages::UnitOrder unit_order(const Program& program, const stages::StageSpec& stage);

/// The collectives with which a rank completes gradients and gathers weights in a step, among
/// replicas and instances.
std::vector<stages::PlannedCollectives> planned_collectives(const RunSpec& spec,
                                                            const ClusterShape& shape,
                                                            const RankAssembly& part);

}  // namespace troupe::actors
