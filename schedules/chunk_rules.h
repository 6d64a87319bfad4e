#pragma once

#include "schedules/validate.h"

namespace troupe::schedules {

/// SCHED-3 to SCHED-6: what each chunk's actions must be, chunk by chunk. The plan obeys SCHED-1
/// and SCHED-2.
std::optional<Violation> check_chunks(const Plan& plan, Purpose purpose);

}  // namespace troupe::schedules
