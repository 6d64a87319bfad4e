#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/replicas/data_parallel.h"
#include "stages/stage/stage_spec.h"

namespace troupe::stages {

/// What the collectives of one kind of a step are to be: CollectiveReport without times.
struct PlannedCollectives {
  const char* operation = "";
  int count = 0;
  std::int64_t bytes = 0;
  bool operator==(const PlannedCollectives&) const = default;
};

/// The buckets whose weights the nodes of a pass read, as Stage::nodes() of that stage would say
/// (NodeEffects::reads), node by node; empty lists where a node reads none, or weights are not
/// divided.
std::vector<std::vector<int>> reads_of(const StageSpec& stage, int chunk, Pass pass);

/// The units of divided weights that a rank gathers in a step, in the order of each pass:
/// "embedding", "positions", "layer 3", "head" (with the last norm). A unit that is still there is
/// not gathered again.
struct PlannedGathers {
  std::vector<std::string> forward, backward;
  int at_once = 0;  ///< units that each pass has room for
};
/// Empty unless the stage's weights are divided. `order`: what the nodes of a step read.
PlannedGathers plan_gathers(const StageSpec& stage, const UnitOrder& order);

/// The collectives of a step among the replicas of a stage and, of several instances, between
/// these: a pure function of the plan. `spec` and `stage` are of one shape, with
/// DataParallelSpec::microbatches; `order` is what the nodes of a step read. None without replicas.
std::vector<PlannedCollectives> plan_collectives(const DataParallelSpec& spec,
                                                 const StageSpec& stage, const UnitOrder& order,
                                                 int replicas);

}  // namespace troupe::stages
