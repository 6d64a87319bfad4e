#pragma once

#include <cstddef>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/device/shared_memory.h"

namespace troupe::tensor {

/// Memory of the devices of a group's members, a piece of each, of equal sizes, that all of them
/// reach. What a process has mapped stays valid whatever becomes of the one that shared it.
/// Move-only.
struct PeerMemory {
  SharedMemory own;            ///< this member's piece
  std::vector<Buffer> others;  ///< by member; empty at this member's place
  int member = 0;

  int size() const { return static_cast<int>(others.size()); }
  /// Where this device reaches the piece of member i.
  std::byte* of(int i) const {
    const Buffer& memory = i == member ? own.memory() : others[static_cast<std::size_t>(i)];
    return static_cast<std::byte*>(memory.data());
  }
};

}  // namespace troupe::tensor
