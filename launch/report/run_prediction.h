#pragma once

#include <optional>
#include <string>

#include "launch/planner/machine_file.h"
#include "launch/planner/measured_step.h"
#include "launch/report/metrics.h"

namespace troupe::launch {

/// A step of a run as a plan for a described machine has it, beside its measured steps.
struct RunPrediction {
  std::string machine;
  Prediction prediction;
  MeasuredStep measured;
};

/// Medians over the steps since the ranks were the newest step's, without the first ones, in which
/// memory is touched for the first time. None if there are too few, or if these ranks are of
/// another number, as of a run that was changed while it lived.
std::optional<MeasuredStep> measured_steps(const Metrics& metrics, int ranks);

/// None if measured_steps() of the spec's ranks are, or its stages differ in width.
std::optional<RunPrediction> predict_run(const actors::RunSpec& spec, const Metrics& metrics,
                                         const MachineDescription& machine);

nlohmann::json to_json(const RunPrediction& prediction);

}  // namespace troupe::launch
