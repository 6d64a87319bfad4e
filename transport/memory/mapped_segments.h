#pragma once

#include <memory>
#include <vector>

#include "transport/memory/slot_memory.h"

namespace troupe::transport {

/// Memory of other members that this one has mapped to write into, each segment once. It stays
/// mapped, so that no later write has to wait for the system.
class MappedSegments {
 public:
  /// The segment's first byte. Null if it cannot be mapped, which is not tried again.
  std::byte* find(const SegmentName& name, std::size_t bytes);

 private:
  struct Mapping {
    SegmentName name;
    std::size_t bytes = 0;
    std::unique_ptr<MappedSlots> slots;
  };
  std::vector<Mapping> mappings_;
};

}  // namespace troupe::transport
