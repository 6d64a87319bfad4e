#pragma once

#include <cstddef>
#include <vector>

#include "stages/stage.h"

namespace troupe::stages {

/// A node of a chunk: a part of the model, and the work on it.
struct Node {
  enum class Sublayer { embedding, input_norm, attention, post_norm, feed_forward, head, copy };
  enum class Work { forward, input_gradient, weight_gradient };
  Sublayer part = Sublayer::copy;
  Work work = Work::forward;
  std::size_t block = 0;  ///< the layer that a layer's part belongs to
};

/// The nodes of one pass through a chunk in the order in which they run, and what ends with each.
struct NodeRow {
  std::vector<Node> nodes;
  std::vector<NodeEnd> ends;
};

NodeRow row_of(const ChunkSpec& chunk, Pass pass);

}  // namespace troupe::stages
