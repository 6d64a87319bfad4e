#pragma once

#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/reports.h"

namespace troupe::actors {

/// What the stages of a replica measured in a step: their times, and what went over each edge.
/// `votes` are by stage.
StepReport::Measured measured(int replica, const std::vector<Prepared>& votes);

}  // namespace troupe::actors
