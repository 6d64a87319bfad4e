#pragma once

#include <string>

#include "actors/topology/run_spec.h"
#include "launch/report/step_picture.h"

namespace troupe::launch {

/// What another split of the layers would do to a step, in a sentence, as schedule.auto_layout
/// finds it from the times of this one. `spec` is of the shape that the step had. Empty if the step
/// has no prediction or not that shape, or if layers cannot be split otherwise.
std::string layout_advice(const StepPicture& picture, const actors::RunSpec& spec);

}  // namespace troupe::launch
