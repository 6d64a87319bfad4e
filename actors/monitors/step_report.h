#pragma once

#include <vector>

#include "actors/reports.h"
#include "actors/tally.h"

namespace troupe::actors {

/// Fills in what the stages measured in a step: their times, and what went over each edge. `votes`
/// are by replica.
void add_measurements(StepReport& report, const std::vector<OfReplica<Prepared>>& votes);

}  // namespace troupe::actors
