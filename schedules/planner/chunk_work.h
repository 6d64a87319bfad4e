#pragma once

#include <vector>

#include "schedules/planner/layer_costs.h"

namespace troupe::schedules {

/// What each layer and each end of a run takes on a shard, computed once for all of its chunks.
struct LayoutCosts {
  PassCosts layer;       ///< with what is computed again
  PassCosts kept_layer;  ///< of which nothing is
  PassCosts embedding, head;
};
LayoutCosts layout_costs(const Work& work, const Operations& operations);

/// What a chunk holds.
struct ChunkWork {
  int layers = 0;
  bool embedding = false;
  bool head = false;
};
/// The chunks of one copy of the parameters, in model order.
std::vector<ChunkWork> chunks_of(const std::vector<int>& layers);

/// A microbatch of a chunk, in seconds.
struct ChunkCosts {
  PassCosts pass;
  /// Waits for other replicas: gathers of divided weights, and reductions after each microbatch.
  double forward_replicas = 0, backward_replicas = 0;
  double forward() const { return pass.forward + pass.forward_wait + forward_replicas; }
  double backward() const {
    return pass.input_gradient + pass.weight_gradient + pass.backward_wait + backward_replicas;
  }
};
ChunkCosts chunk_costs(const Work& work, const Operations& operations, const LayoutCosts& costs,
                       const ChunkWork& chunk);

/// Parameters of a shard of a chunk, without norms and biases. A tied head has the table too.
double parameters_of(const Work& work, const ChunkWork& chunk);

/// A message between two stages, until the receiver can compute with it. Each shard sends a slice;
/// without sequence parallelism the receiving shards gather the slices. Where stages differ in
/// width, a rank's slice comes from several or goes to several, one after the other.
double hop_between_stages(const Work& from, const Work& to, const Operations& operations);

}  // namespace troupe::schedules
