#pragma once

#include <string>

#include "schedules/simulate.h"

namespace troupe::schedules {

/// A line per rank, a column per slot, one slot as long as the shortest action. Idle slots are
/// dots, an action's later slots dashes. Plans with one chunk a rank are written without chunk
/// numbers.
std::string to_grid(const Plan& plan, const Simulation& simulation);

/// The same as a picture of its own: a row per rank, a box per action, coloured by what it does and
/// paler for later chunks of a rank, above an axis in slots. A pointer over a box shows the action.
std::string to_svg(const Plan& plan, const Simulation& simulation);

/// The duration of the shortest action that takes time; 1 in a plan that takes none.
double slot_length(const Simulation& simulation);

}  // namespace troupe::schedules
