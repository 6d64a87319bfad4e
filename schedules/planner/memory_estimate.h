#pragma once

#include <vector>

#include "schedules/planner/chunk_work.h"

namespace troupe::schedules {

/// How many microbatches of a chunk a stage holds at once.
enum class Held {
  one_f_one_b,  ///< as many as there are stages from it on
  interleaved,  ///< those of a second fill, too
  all           ///< every microbatch of a step
};

/// Bytes that the fullest rank takes on a GPU, by formula: what training keeps of its parameters,
/// and activations. Within a fifth of an exact count for models that fill a GPU. `layers` as in
/// predict_step(), `chunks` those of a stage.
double estimate_memory(const Work& work, const std::vector<int>& layers, int chunks, Held held);

}  // namespace troupe::schedules
