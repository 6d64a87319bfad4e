#include "transport/memory/mapped_segments.h"

#include <algorithm>

namespace troupe::transport {

std::byte* MappedSegments::find(const SegmentName& name, std::size_t bytes) {
  if (name.id == SegmentName::kNone) return nullptr;
  auto found = std::ranges::find_if(mappings_, [&](const Mapping& mapping) {
    return mapping.name == name && mapping.bytes == bytes;
  });
  if (found == mappings_.end()) {
    mappings_.push_back({name, bytes, map_slots(name, bytes)});
    found = mappings_.end() - 1;
  }
  return found->slots ? found->slots->data() : nullptr;
}

}  // namespace troupe::transport
