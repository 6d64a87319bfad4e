#include "launch/report/time_account.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

namespace troupe::launch {
namespace {

double known(double seconds) {
  return std::isfinite(seconds) ? std::max(0.0, seconds) : 0;
}

bool is_recovery(const TimelineEntry& entry) {
  return entry.kind == "recovered" && !entry.phases.empty();
}
bool is_order(const TimelineEntry& entry) {
  return entry.kind == "rescaled" && !entry.phases.empty();
}

double end_of(const LaunchSpan& launch, const History& history, double now) {
  const bool newest = &launch == &history.launches.back();
  return launch.ended ? launch.end : std::max(launch.end, newest ? now : 0);
}

double recoveries_s(const History& history, double now) {
  double sum = history.broken_off_s;
  for (const TimelineEntry& entry : history.timeline)
    if (is_recovery(entry)) sum += known(entry.stall_s);
  if (history.recovering_since)
    sum += known(end_of(history.launches.back(), history, now) - *history.recovering_since);
  return sum;
}

/// The part of an ordered change that is not within a recovery.
double own_part_s(const TimelineEntry& order, const History& history) {
  const double begin = order.time - known(order.stall_s);
  double own = known(order.stall_s);
  const auto leave_out = [&](double from, double to) {
    own -= known(std::min(order.time, to) - std::max(begin, from));
  };
  for (const TimelineEntry& other : history.timeline)
    if (is_recovery(other)) leave_out(other.time - other.stall_s, other.time);
  if (history.recovering_since) leave_out(*history.recovering_since, order.time);
  return known(own);
}

double orders_s(const History& history) {
  double sum = 0;
  for (const TimelineEntry& entry : history.timeline)
    if (is_order(entry)) sum += own_part_s(entry, history);
  return sum;
}

/// The first new steps after changes, without those that a resume has dropped.
std::set<std::int64_t> first_steps(const History& history) {
  std::set<std::int64_t> steps;
  for (const TimelineEntry& entry : history.timeline) {
    if (entry.kind == "launch") steps.erase(steps.upper_bound(entry.step), steps.end());
    // An order within a recovery ends with a step that is computed again.
    if (is_recovery(entry) ||
        (is_order(entry) && own_part_s(entry, history) == known(entry.stall_s)))
      steps.insert(entry.step);
  }
  return steps;
}

}  // namespace

void TimeSums::add(const StepRow& row) {
  steps_s += known(row.step_s);
  busy_s += known(row.busy_s);
  collective_s += known(row.collective_s);
  waits_s += known(row.idle_s - known(row.collective_s));
}

TimeSums time_sums(const Metrics& metrics, const History& history) {
  TimeSums sums;
  const auto left_out = first_steps(history);
  for (const StepRow& row : metrics.steps)
    if (!left_out.contains(row.step)) sums.add(row);
  return sums;
}

TimeAccount where_time_went(const TimeSums& sums, const History& history, double now,
                            std::optional<double> bubble) {
  double wall = 0;
  for (const LaunchSpan& launch : history.launches)
    wall += end_of(launch, history, now) - launch.begin;
  const double recoveries = recoveries_s(history, now), changes = orders_s(history);
  const double own = bubble && *bubble < 1 ? sums.busy_s * *bubble / (1 - *bubble) : 0;
  const double in_bubble = std::min(sums.waits_s, known(own));
  TimeAccount account{
      {{"computing", "forwards and backwards", sums.busy_s},
       {"bubble", "what the schedule itself leaves idle", in_bubble},
       {bubble ? "late messages" : "waiting for other stages",
        bubble ? "waits for other stages beyond the bubble"
               : "the schedule's bubble, and messages that came late",
        sums.waits_s - in_bubble},
       {"waiting for shards", "collectives that no computation hides", sums.collective_s},
       {"ending steps", "sums over replicas, votes and the optimizer",
        known(sums.steps_s - sums.busy_s - sums.collective_s - sums.waits_s)},
       {"recoveries", "from a worker's loss to the end of the next new step", recoveries},
       {"ordered changes", "from the order to the end of the next step", changes},
       {"other", "the start, evaluations, last checkpoints, and steps that were dropped",
        known(wall - sums.steps_s - recoveries - changes)}},
      0};
  for (const TimeShare& part : account.parts) account.whole_s += part.seconds;
  if (account.whole_s > 0)
    for (TimeShare& part : account.parts) part.share = part.seconds / account.whole_s;
  return account;
}

}  // namespace troupe::launch
