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
/// "embedding", "positions", "layer 3", "experts of layer 3" (that replicas share out), "head"
/// (with the last norm). A unit that is still there is not gathered again.
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

/// The largest collectives that complete a stage's gradients and share its update, in elements.
struct GradientTraffic {
  int at_once = 1;          ///< buckets of which a collective is under way at a time
  std::int64_t bucket = 0;  ///< gradients of a bucket
  std::int64_t slice = 0;   ///< of a bucket, if replicas divide the state
  std::int64_t tied = 0;    ///< the gradient of a tied embedding whose other use another stage has
  std::int64_t norms = 0;   ///< gradients of a bucket that all shards hold alike
  std::int64_t kv_heads = 0;  ///< the same: that shards with the same heads hold
  /// Numbers of 8 bytes that one replica has for another: a digest of each weight, or the sums of
  /// squares of its slices.
  std::int64_t sums = 0;
  /// Buckets whose divided weights are gathered at a time, for forwards and for backwards.
  int forward_gathers = 0, backward_gathers = 0;
};
GradientTraffic gradient_traffic(const BucketRule& rule, const StageSpec& stage);

}  // namespace troupe::stages
