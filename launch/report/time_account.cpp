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

void TimeSums::add(const StepRow& row) {
  steps_s += known(row.step_s);
  busy_s += known(row.busy_s);
  collective_s += known(row.collective_s);
  waits_s += known(row.idle_s - known(row.collective_s));
}

TimeSums time_sums(const Metrics& metrics) {
  TimeSums sums;
  for (const StepRow& row : metrics.steps) sums.add(row);
  return sums;
}

std::vector<TimeShare> where_time_went(const TimeSums& sums, const History& history, double now,
                                       std::optional<double> bubble) {
  double wall = 0;
  for (const LaunchSpan& launch : history.launches)
    wall += (launch.ended ? launch.end
                          : std::max(launch.end, &launch == &history.launches.back() ? now : 0)) -
            launch.begin;
  const double recoveries = stalls(history, "recovered"), changes = stalls(history, "rescaled");
  const double own = bubble && *bubble < 1 ? sums.busy_s * *bubble / (1 - *bubble) : 0;
  const double in_bubble = std::min(sums.waits_s, known(own));
  return {{"computing", "forwards and backwards", sums.busy_s},
          {"bubble", "what the schedule itself leaves idle", in_bubble},
          {bubble ? "late messages" : "waiting for other stages",
           bubble ? "waits for other stages beyond the bubble"
                  : "the schedule's bubble, and messages that came late",
           sums.waits_s - in_bubble},
          {"waiting for shards", "collectives that no computation hides", sums.collective_s},
          {"ending steps", "sums over replicas, votes and the optimizer",
           known(sums.steps_s - sums.busy_s - sums.collective_s - sums.waits_s)},
          {"recoveries", "from a worker's loss to the next step", recoveries},
          {"ordered changes", "from the order to the next step", changes},
          {"other", "the start, evaluations, last checkpoints, and steps that were dropped",
           known(wall - sums.steps_s - recoveries - changes)}};
}

}  // namespace troupe::launch
