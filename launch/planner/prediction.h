#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/topology/run_spec.h"
#include "launch/planner/machine_file.h"
#include "schedules/planner/step_prediction.h"

namespace troupe::launch {

/// What a run will cost on a described machine.
struct Prediction {
  schedules::StepPrediction step;
  std::int64_t memory_bytes = 0;  ///< of the fullest rank, on its device
  std::int64_t room_bytes = 0;    ///< the memory of a device
  bool fits() const { return memory_bytes <= room_bytes; }
};

/// The spec as it would be run there: on devices of that kind, on no hosts in particular.
actors::RunSpec on_machine(actors::RunSpec spec, const schedules::MachineModel& machine);

/// Predicts a step of a spec that has been checked. The machine is not needed.
Prediction predict(const actors::RunSpec& spec, const schedules::MachineModel& machine);
/// Its memory alone.
std::int64_t memory_of_fullest(const actors::RunSpec& spec);

/// What should be changed in a layout on that machine, a sentence each, with the key at fault.
std::vector<std::string> layout_warnings(const actors::RunSpec& spec, const Prediction& prediction,
                                         const schedules::MachineModel& machine);

nlohmann::json to_json(const Prediction& prediction);
/// Some lines for people.
std::string to_text(const Prediction& prediction, const MachineDescription& machine);

}  // namespace troupe::launch
