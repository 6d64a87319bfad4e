#pragma once

#include <array>
#include <memory>

#include "stages/node_row.h"
#include "tensor/process_group.h"

namespace troupe::stages {

/// Collectives that a microbatch's nodes have started and none has waited for yet.
struct PendingCollectives {
  std::unique_ptr<tensor::Work> forward;   ///< a forward has one at a time
  std::unique_ptr<tensor::Work> gradient;  ///< Node::Work::gather_gradient
  std::unique_ptr<tensor::Work> input;     ///< gather_input_again
  std::unique_ptr<tensor::Work> reduced;   ///< reduce_gradient
  std::unique_ptr<tensor::Work> again;     ///< of what a backward computes again, one at a time
};
using PendingCollective = std::unique_ptr<tensor::Work> PendingCollectives::*;

/// The collective that a node starts; null: none.
PendingCollective started_by(Pass pass, const Node& node);

/// The collectives that a node waits for, in this order, if they are under way;
/// null: none. It reads their results, or starts a collective with them.
std::array<PendingCollective, 2> read_by(Pass pass, const Node& node);

}  // namespace troupe::stages
