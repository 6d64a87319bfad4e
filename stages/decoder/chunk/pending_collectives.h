#pragma once

#include <memory>

#include "tensor/process_group.h"

namespace troupe::stages {

/// Collectives that a microbatch's nodes have started and none has waited for yet.
struct PendingCollectives {
  std::unique_ptr<tensor::Work> forward;   ///< a forward has one at a time
  std::unique_ptr<tensor::Work> again;     ///< so has what a backward computes again
  std::unique_ptr<tensor::Work> gradient;  ///< NodeList::gather_gradient
  std::unique_ptr<tensor::Work> input;     ///< NodeList::gather_input_again
  std::unique_ptr<tensor::Work> reduced;   ///< NodeList::reduce_gradient
};
/// One of them; null: none.
using PendingCollective = std::unique_ptr<tensor::Work> PendingCollectives::*;

}  // namespace troupe::stages
