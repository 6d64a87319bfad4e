#pragma once

#include <vector>

#include "schedules/generators/generators.h"
#include "schedules/planner/step_prediction.h"

namespace troupe::schedules {

/// A run that a test predicts, with layers that chunks share evenly unless they are given.
struct PlannedRun {
  Work work;
  const char* kind = "1f1b";
  int chunks = 1;
  std::vector<int> split{};

  std::vector<int> layers() const {
    if (!split.empty()) return split;
    const int count = work.pp * chunks;
    return std::vector<int>(static_cast<std::size_t>(count), static_cast<int>(work.layers) / count);
  }
  Plan plan() const {
    const ScheduleShape shape{
        .stages = work.pp, .chunks = chunks, .microbatches = work.microbatches};
    return in_order(find_generator(kind)->generate(shape));
  }
  StepPrediction on(const MachineModel& machine) const {
    return predict_step(work, plan(), layers(), machine);
  }
};

/// A GPT of arXiv 2205.05198: layers of width h, four times that for feed-forward.
inline Work gpt(int hidden, int heads, int layers) {
  return {.hidden = hidden,
          .feed_forward = 4 * hidden,
          .heads = heads,
          .kv_heads = heads,
          .head_width = hidden / heads,
          .layers = layers,
          .vocabulary = 51200,
          .hidden_dropout = true,
          .attention_dropout = true,
          .tied = true,
          .element_bytes = 2,
          .seq_len = 2048};
}

}  // namespace troupe::schedules
