#include "tests/host_cudart/memory_map.h"

namespace troupe::host_cudart {

bool MemoryMap::add(void* data, const Piece& piece) {
  const auto* const begin = static_cast<const std::byte*>(data);
  const auto next = pieces_.lower_bound(begin);
  if (next != pieces_.end() && next->first < begin + piece.bytes) return false;
  if (find(begin, 1) != nullptr) return false;
  pieces_.emplace(begin, piece);
  return true;
}

MemoryMap::Piece MemoryMap::remove(void* data, Kind kind) {
  const auto found = pieces_.find(static_cast<const std::byte*>(data));
  if (found == pieces_.end() || found->second.kind != kind) return {};
  const Piece piece = found->second;
  pieces_.erase(found);
  return piece;
}

const MemoryMap::Piece* MemoryMap::find(const void* data, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(data);
  auto next = pieces_.upper_bound(begin);
  if (next == pieces_.begin()) return nullptr;
  const auto& [start, piece] = *--next;
  return begin + bytes <= start + piece.bytes ? &piece : nullptr;
}

}  // namespace troupe::host_cudart
