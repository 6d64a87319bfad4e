#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "actors/topology/epoch.h"
#include "actors/tuning/step_meter.h"

namespace troupe::actors {

/// A schedule that the running cluster could take on.
struct Candidate {
  ClusterShape shape;
  double step_s = 0;  ///< of a whole step, as the simulator sees it
};

/// What every schedule of one copy of the parameters that has a plan for the current mesh would
/// take, the fastest first, 1f1b first among equals. Chunks get the times of their layers, the
/// model's first and last one those of embedding and head besides; what a step takes beyond its
/// actions stays. Each has these times as its costs; searched schedules are made for them, or for
/// their mean where that makes them faster.
std::vector<Candidate> candidates(const RunSpec& spec, const ClusterShape& current,
                                  const Measured& measured);

/// 1f1b among them.
const Candidate& plain_of(const std::vector<Candidate>& candidates);

/// The first of the candidates that fits, or 1f1b, which needs no more memory than what runs, where
/// that is not worth the change.
const Candidate& choose(const std::vector<Candidate>& candidates,
                        const std::function<bool(const ClusterShape&)>& fits);

}  // namespace troupe::actors
