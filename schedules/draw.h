#pragma once

#include <string>

#include "schedules/simulate.h"

namespace troupe::schedules {

/// A line per rank, a column per slot, one slot as long as the shortest action. Idle slots are
/// dots, an action's later slots dashes. Plans with one chunk a rank are written without chunk
/// numbers.
std::string to_grid(const Plan& plan, const Simulation& simulation);

/// "#rrggbb": what stands for this kind of action in every picture. Told apart by those who do not
/// see all colours, too.
const char* colour_of(Op op);

/// What an axis counts: slots, or the time that the costs are given in.
enum class Axis { slots, time };
/// A simulated plan as a picture: a row per rank, a box per action, coloured by what it does and
/// paler for later chunks of a rank, between a legend and an axis. An overlapped pair lies one
/// above the other. A pointer over a box shows the action.
std::string to_svg(const Plan& plan, const Simulation& simulation, Axis axis = Axis::slots);

/// A simulated plan as a timeline in the Trace Event Format, which Perfetto and Chrome show: a
/// thread per rank, a second one for what overlaps; a unit of time is a millisecond.
std::string to_trace(const Plan& plan, const Simulation& simulation);

/// The duration of the shortest action that takes time; 1 in a plan that takes none.
double slot_length(const Simulation& simulation);

}  // namespace troupe::schedules
