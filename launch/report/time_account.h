#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/report/history.h"
#include "launch/report/metrics.h"

namespace troupe::launch {

/// A part of the time that a run took.
struct TimeShare {
  std::string name;
  std::string meaning;
  double seconds = 0;
  double share = 0;  ///< of all
};
/// What the ranks did while the run lived, on average over them.
struct TimeAccount {
  std::vector<TimeShare> parts;  ///< they add up to whole_s
  double whole_s = 0;
};

/// Sums over steps, on average over the ranks. A time that is not known counts as none.
struct TimeSums {
  double steps_s = 0;
  double busy_s = 0;
  double waits_s = 0;  ///< for other stages
  double collective_s = 0;

  void add(const StepRow& row);
};
/// Sums over all steps but the first after each change of the cluster, which is a part of the
/// change.
TimeSums time_sums(const Metrics& metrics, const History& history);

/// `now` is the end of a launch that goes on; else a launch ends with its last event. `bubble` is
/// the share of forwards and backwards in which the schedule itself leaves the ranks idle; without
/// it all waits for other stages are one part.
TimeAccount where_time_went(const TimeSums& sums, const History& history, double now,
                            std::optional<double> bubble);

}  // namespace troupe::launch
