#pragma once

#include <string>
#include <string_view>

#include "schedules/analysis/validate.h"

namespace troupe::schedules {

/// A rank's actions near a place, with a line below that marks it. A place after the last action
/// marks the end of the order.
std::string mark(const Plan& plan, int rank, int index);

/// The text "1B2 of rank 1" for an action.
std::string name(const Plan& plan, int rank, int index);

/// A violation at a place in a rank's order, with the marked grid.
Violation violation(const Plan& plan, std::string_view rule, int rank, int index,
                    std::string message);

}  // namespace troupe::schedules
