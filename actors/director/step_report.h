#pragma once

#include <vector>

#include "actors/messages/messages.h"
#include "actors/topology/reports.h"

namespace troupe::actors {

/// What the stages of a replica measured in a step: their times, and the bytes and waits of each
/// edge. `votes` are ordered by stage.
StepReport::Measured measured(const RunSpec::Mesh& mesh, const std::vector<Prepared>& votes);

}  // namespace troupe::actors
