#pragma once

#include <map>
#include <optional>
#include <vector>

#include "schedules/analysis/costs.h"
#include "schedules/analysis/gather_lanes.h"
#include "schedules/plan/plan.h"

namespace troupe::schedules {

/// Why a rank did nothing. The parts add up to its idle time.
struct Idle {
  double warm_up = 0;             ///< before its first action
  double cool_down = 0;           ///< after its last one
  double communication = 0;       ///< the input was computed but had not arrived, or a send blocked
  std::map<int, double> waiting;  ///< time until another rank had computed the input, by that rank
};

struct Simulation {
  double wall = 0;  ///< T: from the first action's start to the last one's end
  double span = 0;  ///< L: the longest first-start to last-end of a rank
  /// Time from one step to the next: T or L, as Costs::barrier says, and the optimizer. With
  /// Barrier::ahead that of many steps one after the other, all else being of the first of them.
  double step = 0;
  std::vector<double> busy;           ///< by rank: computing or waiting for collectives
  std::vector<double> collective;     ///< by rank: the part of it that waits for collectives
  std::vector<double> idle;           ///< wall - busy, by rank
  std::vector<Idle> causes;           ///< causes of the idle time, by rank
  std::vector<int> peak_activations;  ///< by rank: chunk-microbatches held from F to B or W
  /// 1 - ideal / span; the ideal is a rank's mean work without overlap and collectives, m(F + I +
  /// W) for equal stages.
  double bubble_rate = 0;
  struct Span {
    double start = 0;
    double end = 0;
  };
  std::vector<std::vector<Span>> times;  ///< [rank][order], as plan.actions
  /// By rank: what it gathers of divided weights, forwards' and backwards' in the order of each.
  std::vector<std::vector<Gather>> gathers;
};

/// The cost model of the zero-bubble paper (arXiv 2401.10241): an action starts when its rank is
/// free and its input is there; links cost latency only, buffers are unlimited, sends cost the
/// sender nothing, unless the costs say otherwise. A pair starts when the inputs of both its parts
/// are there and ends for both at once, unless Costs::pairs says otherwise. Gathers run beside
/// actions, which wait for them unit by unit (GatherLanes); a wait of one action of a pair is
/// hidden by the other as that for a collective is. Time is linear in the number of actions. None
/// if the plan deadlocks. The plan must obey SCHED-1 to SCHED-5 and SCHED-8.
std::optional<Simulation> simulate(const Plan& plan, const Costs& costs);

/// The simulation with every time divided by `units`.
Simulation divided(Simulation simulation, double units);

}  // namespace troupe::schedules
