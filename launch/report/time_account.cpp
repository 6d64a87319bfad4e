#include "launch/report/time_account.h"

#include <algorithm>
#include <cmath>

namespace troupe::launch {
namespace {

double known(double seconds) {
  return std::isfinite(seconds) ? std::max(0.0, seconds) : 0;
}

/// What the phases before the first step took, in all happenings of a kind; the first step itself
/// is among the steps.
double stalls(const History& history, const std::string& kind) {
  double sum = 0;
  for (const Happening& happening : history.happenings)
    if (happening.kind == kind && !happening.phases.empty())
      sum += known(happening.stall_s - happening.phases.back().seconds);
  return sum;
}

}  // namespace

std::vector<TimeShare> where_time_went(const Metrics& metrics, const History& history, double now) {
  double steps = 0, busy = 0, collectives = 0, waits = 0;
  for (const StepRow& row : metrics.steps) {
    steps += known(row.step_s);
    busy += known(row.busy_s);
    collectives += known(row.collective_s);
    waits += known(row.idle_s - known(row.collective_s));
  }
  double wall = 0;
  for (const LaunchSpan& launch : history.launches)
    wall += (launch.ended ? launch.end
                          : std::max(launch.end, &launch == &history.launches.back() ? now : 0)) -
            launch.begin;
  const double recoveries = stalls(history, "recovered"), changes = stalls(history, "rescaled");
  return {{"computing", "forwards and backwards", busy},
          {"waiting for other stages", "the schedule's bubble, and messages that came late", waits},
          {"waiting for shards", "collectives that no computation hides", collectives},
          {"ending steps", "sums over replicas, votes and the optimizer",
           known(steps - busy - collectives - waits)},
          {"recoveries", "from a worker's loss to the next step", recoveries},
          {"ordered changes", "from the order to the next step", changes},
          {"other", "the start, evaluations, last checkpoints, and steps that were dropped",
           known(wall - steps - recoveries - changes)}};
}

}  // namespace troupe::launch
