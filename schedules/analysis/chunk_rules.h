#pragma once

#include "schedules/analysis/validate.h"

namespace troupe::schedules {

/// Checks SCHED-3 to SCHED-6, chunk by chunk. The plan must obey SCHED-1 and SCHED-2.
std::optional<Violation> check_chunks(const Plan& plan, Purpose purpose);

}  // namespace troupe::schedules
