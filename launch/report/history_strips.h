#pragma once

#include <cstdint>
#include <vector>

#include "launch/charts/timeline.h"
#include "launch/report/history.h"

namespace troupe::launch {

/// The strips below a chart over steps: the cluster's shapes, and what happened at which step, up
/// to the last one.
std::vector<Strip> strips_of(const History& history, std::int64_t last_step);

}  // namespace troupe::launch
