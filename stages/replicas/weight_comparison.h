#pragma once

#include "stages/stage/stage.h"
#include "tensor/device/device.h"
#include "tensor/device/process_group.h"

namespace troupe::stages {

/// How the weights that several replicas of a stage keep differ.
struct WeightComparison {
  bool all_equal = true;  ///< on all members of their group
  int reference = 0;      ///< the member whose weights most members have; of several such the first
  int first = -1;  ///< this member's first parameter that differs from the reference's; -1: none
  int count = 0;   ///< this member's parameters that differ
};

// All members of a group call these functions while nothing is computed; each blocks until they
// have. Weights are compared by XXH3 digests of each parameter, and read once.

/// Which parameters are compared: those that replicas share out (Parameter::is_expert) have other
/// holders than the rest.
enum class Compared { all, experts, others };

/// Compares the weights of members that keep the same slices (Parameter::kept_weight): all
/// replicas, or those of one place in each instance. All learn of one reference.
WeightComparison compare_weights(const Stage& stage, tensor::ProcessGroup& holders,
                                 tensor::Device& device, Compared compared = Compared::all);
/// Gives every such member the kept weights and the moments of the member `from`.
void copy_state(Stage& stage, tensor::ProcessGroup& holders, int from, tensor::Device& device,
                Compared compared = Compared::all);

/// Compares the weights that this member keeps as the twin of the one `ep` before it
/// (StateSharding::twin) with that one's own, which is the reference of this member alone.
WeightComparison compare_with_twin(const Stage& stage, tensor::ProcessGroup& twins,
                                   tensor::Device& device, int ep = 1);
/// Gives every twin the weights and moments of the slices' owner.
void copy_to_twins(Stage& stage, tensor::ProcessGroup& twins, tensor::Device& device, int ep = 1);

}  // namespace troupe::stages
