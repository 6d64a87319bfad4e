#pragma once

#include <optional>
#include <vector>

#include "schedules/plan.h"

namespace troupe::schedules {

/// Durations in any one unit, of a whole stage: with v chunks on a rank, an action of one chunk
/// costs 1/v of this. B costs what I and W cost together.
struct StageCosts {
  double forward = 1;
  double input_gradient = 1;
  double weight_gradient = 1;
};

struct Costs {
  std::vector<StageCosts> stages = {StageCosts{}};  ///< by rank; one entry serves all ranks
  double hop = 0;  ///< latency of an edge between two ranks; a rank's edge to itself has none
};

struct Simulation {
  double wall = 0;                    ///< from the first action's start to the last one's end
  double span = 0;                    ///< the longest first-start to last-end of a rank
  std::vector<double> busy;           ///< by rank
  std::vector<double> idle;           ///< wall - busy, by rank
  std::vector<int> peak_activations;  ///< by rank: chunk-microbatches held from F to B or W
  double bubble_rate = 0;             ///< 1 - mean busy / wall
  struct Span {
    double start = 0;
    double end = 0;
  };
  std::vector<std::vector<Span>> times;  ///< [rank][order], as plan.actions
};

/// The cost model of the zero-bubble paper (arXiv 2401.10241): an action starts when its rank is
/// free and its input is there; links cost latency only, buffers are unlimited. Time is linear in
/// the number of actions. None where the plan deadlocks. The plan obeys SCHED-1 to SCHED-5.
std::optional<Simulation> simulate(const Plan& plan, const Costs& costs);

}  // namespace troupe::schedules
