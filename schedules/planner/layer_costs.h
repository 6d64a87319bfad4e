#pragma once

#include "schedules/planner/operations.h"
#include "schedules/planner/work.h"

namespace troupe::schedules {

/// What one microbatch takes on a shard, in seconds. Waits are what collectives of the shards leave
/// uncovered, beside the computations.
struct PassCosts {
  double forward = 0;
  double forward_wait = 0;
  double input_gradient = 0;  ///< with what is computed again
  double weight_gradient = 0;
  double backward_wait = 0;  ///< for collectives of both parts

  PassCosts& operator+=(const PassCosts& other);
};
PassCosts operator*(double times, const PassCosts& costs);

/// One decoder layer of which nothing is computed again, or what Work::recompute says.
PassCosts layer_costs(const Work& work, const Operations& operations, Work::Recompute recompute);
PassCosts embedding_costs(const Work& work, const Operations& operations);
/// Final norm, head and loss.
PassCosts head_costs(const Work& work, const Operations& operations);

/// The part of a collective that the work beside it does not hide.
double uncovered(double collective, double work, double interference);

}  // namespace troupe::schedules
