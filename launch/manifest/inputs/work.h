#pragma once

#include "actors/topology/run_spec.h"
#include "schedules/planner/work.h"

namespace troupe::launch {

/// What of a run the time of its step depends on.
schedules::Work work_of(const actors::RunSpec& spec);

}  // namespace troupe::launch
