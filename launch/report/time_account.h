#pragma once

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
};

/// What the ranks did while the run lived, on average over them. The parts add up to that time.
/// `now` is the end of a launch that goes on; else a launch ends with its last event.
std::vector<TimeShare> where_time_went(const Metrics& metrics, const History& history, double now);

}  // namespace troupe::launch
