#pragma once

#include <cstdint>

#include "stages/decoder/stage/transformer_stage.h"

namespace troupe::actors {

/// Bytes that a rank allocates, by what they are for: planned, or counted where they are allocated.
struct AllocatedMemory {
  stages::StageMemory stage;
  std::int64_t buckets = 0;      ///< what gradients travel in, if not from where they lie
  std::int64_t collectives = 0;  ///< what its groups work in
  /// Buffers of the channel, and state that waits in host memory while the shape changes. Slots
  /// that sender and receiver both map count at the receiver alone.
  std::int64_t pools = 0;
  std::int64_t total() const { return stage.total() + buckets + collectives + pools; }
};

}  // namespace troupe::actors
