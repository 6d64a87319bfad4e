#pragma once

#include "schedules/analysis/validate.h"

namespace troupe::schedules {

/// Checks SCHED-7: every rank comes to the end of its order. The plan must obey SCHED-1 to SCHED-6
/// and SCHED-8.
std::optional<Violation> check_end(const Plan& plan);

}  // namespace troupe::schedules
