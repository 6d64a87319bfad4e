#pragma once

#include "tensor/device/process_group.h"

namespace troupe::tensor {

/// The groups of the replicas that share out the experts of a stage; null if one holds all. Those
/// of forwards and of backwards are apart as TensorParallelGroups are. What a backward computes
/// again exchanges nothing: it keeps what its forward has received.
struct ExpertParallelGroups {
  ProcessGroup* forward = nullptr;
  ProcessGroup* backward = nullptr;
};

/// What the layers of one replica know about those that hold the other experts: `size` neighbouring
/// replicas, each with a microbatch of its own. Member i holds the experts [i * E / size, (i + 1) *
/// E / size) of every layer that has some, and computes with them for all members' tokens, which
/// travel there and back by two uneven all-to-alls (GShard, arXiv 2006.16668).
struct ExpertParallel {
  int size = 1;
  int member = 0;
  /// Read whenever a collective is called, so that the owner may replace the groups between steps.
  /// Their members are the replicas. Outlives the layers; may be null if one replica holds all.
  const ExpertParallelGroups* groups = nullptr;


  using Direction = ProcessGroup* ExpertParallelGroups::*;
};

}  // namespace troupe::tensor
