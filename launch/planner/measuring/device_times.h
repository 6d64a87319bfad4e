#pragma once

#include <cstdint>
#include <vector>

#include "schedules/planner/machine_model.h"
#include "schedules/planner/work.h"

namespace troupe::launch {

/// What a small stage takes on one rank: medians, in seconds.
struct StageTimes {
  double forward = 0;
  double backward = 0;
  double optimizer = 0;  ///< all of a step outside of its passes
  double spread = 0;     ///< of forward and backward: (most - least) / median
};

/// A stage of one chunk that is measured: a decoder with both of its ends, one microbatch.
struct MeasuredStage {
  schedules::Work work;
  StageTimes times;
};

/// The work of a stage with sequences of this length; the tokens of a microbatch are the same for
/// all.
schedules::Work stage_work(std::int64_t seq_len);
/// Trains such a stage on the CPU in this thread.
StageTimes time_stage(const schedules::Work& work, int threads);

/// Rates of the products of linear layers in float32, with weights packed as in a step: forwards,
/// input gradients and accumulating weight gradients.
std::vector<schedules::MachineModel::ProductRate> time_products(int threads);
/// The rate of a product in bfloat16 over that in float32.
double bfloat16_ratio(int threads);

}  // namespace troupe::launch
