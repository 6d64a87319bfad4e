#pragma once

#include "launch/planner/measuring/device_times.h"

namespace troupe::launch {

/// Sets what products do not say of a device, so that the model takes as long as was measured: the
/// rate of streams from a stage of short sequences, attention from one of long ones, and the bytes
/// of the optimizer.
void fit_device(schedules::MachineModel& machine, const MeasuredStage& short_sequences,
                const MeasuredStage& long_sequences);

/// What the model says that the passes of a stage take, alone on the machine.
StageTimes predicted_times(const schedules::Work& work, const schedules::MachineModel& machine);

}  // namespace troupe::launch
