#pragma once

#include <cstdint>

#include "schedules/planner/operations.h"
#include "schedules/planner/work.h"

namespace troupe::schedules {

/// What it takes to serve sequences with a model, divided among shards and stages.
struct InferencePrediction {
  std::int64_t weights_bytes = 0;   ///< of the fullest rank
  std::int64_t kv_cache_bytes = 0;  ///< of a rank
  double prefill_s = 0;             ///< from the prompts to the first token of each
  double token_s = 0;               ///< from a token of each sequence to the next
  double decode_tokens_per_s = 0;   ///< of all sequences
};

/// `batch` sequences of `context` tokens. The mesh's replicas do not matter: this is one.
InferencePrediction predict_inference(Work work, std::int64_t batch, std::int64_t context,
                                      const MachineModel& machine);

}  // namespace troupe::schedules
