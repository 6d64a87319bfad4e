#pragma once

#include "stages/stage.h"
#include "tensor/device.h"
#include "tensor/process_group.h"

namespace troupe::stages {

/// How the weights of a stage's replicas differ; `reference` and `all_equal` are the same on every
/// member of their group.
struct WeightComparison {
  bool all_equal = true;
  int reference = 0;  ///< the member whose weights most members have; of several such the first
  int first = -1;     ///< this member's first parameter that differs from the reference's; -1: none
  int count = 0;      ///< this member's parameters that differ
};

/// Compares XXH3 digests of the weights of every parameter. All members of the group of replicas
/// call it while nothing is computed; it blocks until they have, and reads all weights once.
WeightComparison compare_weights(const Stage& stage, tensor::ProcessGroup& replicas,
                                 tensor::Device& device);

/// Gives every member the weights and moments of the member `from`, and blocks until it has them.
/// All members call it while nothing is computed.
void copy_state(Stage& stage, tensor::ProcessGroup& replicas, int from, tensor::Device& device);

}  // namespace troupe::stages
