#pragma once

#include <optional>

#include "actors/topology/configuration.h"
#include "actors/tuning/step_meter.h"

namespace troupe::actors {

/// What more replicas of the slowest stage would do to a step.
struct WidthChoice {
  int stage = 0;
  int dp = 1;          ///< replicas that it would have
  double now_s = 0;    ///< a step as it is, simulated
  double wider_s = 0;  ///< a step with them
};

/// The slowest stage, by the time that its actions take in a step, with the fewest replicas more
/// that its neighbours and the batch allow. Where the run's microbatches become fewer, and with
/// them larger, times are taken to grow as the samples do. None if no more replicas are possible,
/// or if the pipeline has one stage.
std::optional<WidthChoice> choose_width(const RunSpec& spec, const ClusterShape& current,
                                        const Measured& measured);

}  // namespace troupe::actors
