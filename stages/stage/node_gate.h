#pragma once

#include "stages/stage/passes.h"
#include "tensor/process_group.h"

namespace troupe::stages {

/// Told of each node before it is called, so that the memory which it needs is ready.
class NodeGate {
 public:
  virtual ~NodeGate() = default;
  /// The first collective that the node would wait for, if one is not done yet. Null: none. Goes on
  /// with what must happen before, and never blocks.
  virtual const tensor::Work* awaited(Pass pass, const NodeEffects& node) = 0;
  /// Blocks until the node may be called, and lets its stream wait for what it needs. Returns the
  /// seconds that the host waited for collectives.
  virtual double open(Pass pass, const NodeEffects& node) = 0;
};

}  // namespace troupe::stages
