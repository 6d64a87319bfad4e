#pragma once

#include <cstddef>
#include <vector>

#include "stages/model/sharding.h"
#include "stages/recompute.h"
#include "stages/stage.h"

namespace troupe::stages {

/// A node of a chunk: a part of the model, and the work on it.
struct Node {
  /// `edge` is the chunk's own input or output gradient.
  enum class Sublayer {
    edge,
    embedding,
    input_norm,
    attention,
    post_norm,
    feed_forward,
    final_norm,
    head,
    copy
  };
  enum class Work {
    forward,
    input_gradient,
    weight_gradient,
    // Collectives over the shards, each of which is only started. The node that reads the result
    // waits for it.
    gather_input,
    reduce_output,
    gather_gradient,
    reduce_gradient,
    gather_input_again,  ///< for the weight gradient
    finish_output,       ///< no collective: what follows reduce_output
    // The loss. Several shards need two collectives for it.
    reduce_max,   ///< collective: maxima of the logits
    local_sums,   ///< of their exponentials
    reduce_sums,  ///< collective
    loss,
  };
  Sublayer part = Sublayer::copy;
  Work work = Work::forward;
  std::size_t block = 0;  ///< the layer that a layer's part belongs to
  bool again = false;     ///< a part of a forward in a backward, which computes it again
};

/// The nodes of one pass through a chunk in the order in which they run, and what ends with each.
struct NodeRow {
  std::vector<Node> nodes;
  std::vector<NodeEnd> ends;
};

/// Whether a node with this work only starts a collective.
bool starts_collective(Node::Work work);

NodeRow row_of(const ChunkSpec& chunk, Pass pass, const Sharding& sharding = {},
               const Recompute& recompute = {});

}  // namespace troupe::stages
