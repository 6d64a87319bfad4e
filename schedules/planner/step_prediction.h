#pragma once

#include <vector>

#include "schedules/plan/plan.h"
#include "schedules/planner/chunk_work.h"

namespace troupe::schedules {

/// What a step takes, in seconds. Parts are means over ranks: step_s = compute_s + optimizer_s +
/// shards_s + replicas_s + edges_s + bubble_share * step_s.
struct StepPrediction {
  int devices = 0;
  double step_s = 0;
  double tokens_per_s = 0;
  double mfu = 0;           ///< model FLOP/s over the peak of all devices
  double hfu = 0;           ///< the same of what is executed
  double bubble_share = 0;  ///< of a step, that ranks stand still although messages take no time
  double compute_s = 0;
  double optimizer_s = 0;
  double shards_s = 0;    ///< collectives of shards that nothing hides
  double replicas_s = 0;  ///< gradients, and gathered weights
  double edges_s = 0;     ///< what the step grows when messages take time
};

/// A step under a plan. `layers` are those of each chunk of one copy, in model order. The plan must
/// be one that simulate() takes, with the stages and microbatches of `work`.
StepPrediction predict_step(const Work& work, const Plan& plan, const std::vector<int>& layers,
                            const MachineModel& machine);

/// How a schedule fills its pipeline, for a closed form.
struct PipelineForm {
  int chunks = 1;  ///< of a stage
  /// Whether weight gradients fill what 1f1b leaves idle, as zb-h1's do.
  bool splits_backward = false;
};

/// The time of a step by a closed form, without a plan, and the part of it that predict_step()
/// would take beside the pipeline: within some percent, for thousands of layouts. `layers` are as
/// in predict_step(); chunk i lies on stage i modulo the stages.
double estimate_step(const Work& work, const Operations& operations, const LayoutCosts& costs,
                     const std::vector<int>& layers, const PipelineForm& form);

}  // namespace troupe::schedules
