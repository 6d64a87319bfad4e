#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schedules/analysis/validate.h"

// The parts of validate(), and what they say about a place in a plan.

namespace troupe::schedules {

/// Checks SCHED-3 to SCHED-6, chunk by chunk. The plan must obey SCHED-1 and SCHED-2.
std::optional<Violation> check_chunks(const Plan& plan, Purpose purpose);
/// Checks SCHED-7: every rank comes to the end of its order. The plan must obey SCHED-1 to SCHED-6
/// and SCHED-8.
std::optional<Violation> check_end(const Plan& plan);

/// A rank's actions near a place, with a line below that marks it. A place after the last action
/// marks the end of the order.
std::string mark(const Plan& plan, int rank, int index);
/// The text "1B2 of rank 1" for an action.
std::string name(const Plan& plan, int rank, int index);
/// A violation at a place in a rank's order, with the marked grid.
Violation violation(const Plan& plan, std::string_view rule, int rank, int index,
                    std::string message);

}  // namespace troupe::schedules
