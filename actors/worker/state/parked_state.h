#pragma once

#include <map>

#include "actors/worker/state/state_mover.h"
#include "tensor/device/device.h"

namespace troupe::actors {

/// A stage's state in pinned host memory, for a device without room for two stages: the one that a
/// change ends leaves the device before the next one is made.
class ParkedState {
 public:
  /// Copies the parts, in memory of the device. Returns once they are here. The device outlives the
  /// object.
  ParkedState(const std::map<int, StateMover::Units>& parts, tensor::Device& device);

  /// The parts as they were, in host memory of the object.
  const std::map<int, StateMover::Units>& parts() const { return parts_; }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  tensor::Buffer memory_;
  std::map<int, StateMover::Units> parts_;
};

}  // namespace troupe::actors
