#pragma once

#include <string>

#include "schedules/analysis/simulate.h"

namespace troupe::schedules {

/// A simulated plan as text: a line per rank and a column per slot, where a slot is as long as the
/// shortest action. Idle slots are dots, an action's later slots dashes. Plans with one chunk per
/// rank are written without chunk numbers.
std::string to_grid(const Plan& plan, const Simulation& simulation);

/// The colour "#rrggbb" of this kind of action in every picture. Colour-blind readers can tell the
/// colours apart, too.
const char* colour_of(Op op);

/// What an axis counts: slots, or time in the unit of the costs.
enum class Axis { slots, time };
/// A simulated plan as a picture: a row per rank, a box per action, coloured by what it does and
/// paler for later chunks of a rank, between a legend and an axis. The two actions of an overlapped
/// pair lie one above the other. Pointing at a box shows its action.
std::string to_svg(const Plan& plan, const Simulation& simulation, Axis axis = Axis::slots);

/// A simulated plan as a timeline in the Trace Event Format, which Perfetto and Chrome show: a
/// thread per rank, a second one for the second actions of pairs, and two for what it gathers of
/// divided weights; a unit of time is a millisecond.
std::string to_trace(const Plan& plan, const Simulation& simulation);

/// The duration of the shortest action that takes time; 1 in a plan that takes none.
double slot_length(const Simulation& simulation);

}  // namespace troupe::schedules
