#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "actors/topology/configuration.h"
#include "actors/tuning/step_meter.h"

namespace troupe::actors {

/// A schedule that the running cluster could take on.
struct Candidate {
  ClusterShape shape;
  double step_s = 0;  ///< simulated time of a whole step
};

/// The schedules with one copy of the parameters that have a plan for the current mesh, each with
/// its simulated time, the fastest first and 1f1b first among equals. A chunk gets the times of its
/// layers, and the model's first and last chunk also those of embedding and head. The time of a
/// step outside its actions counts as constant. Each shape has these times as its costs; a searched
/// schedule is made for them, or for their mean if that makes it faster.
std::vector<Candidate> candidates(const RunSpec& spec, const ClusterShape& current,
                                  const Measured& measured);

/// The candidate whose schedule is 1f1b; there must be one.
const Candidate& plain_of(const std::vector<Candidate>& candidates);

/// The first of the candidates that fits memory and is faster than 1f1b by enough to be worth the
/// change; else 1f1b, which needs no more memory than the current schedule.
const Candidate& choose(const std::vector<Candidate>& candidates,
                        const std::function<bool(const ClusterShape&)>& fits);

}  // namespace troupe::actors
