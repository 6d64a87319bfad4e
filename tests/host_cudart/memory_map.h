#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>

namespace troupe::host_cudart {

/// What the runtime knows of addresses.
class MemoryMap {
 public:
  enum class Kind { device, pinned, registered };
  struct Piece {
    std::size_t bytes = 0;
    Kind kind = Kind::device;
    int device = 0;
  };

  /// False if a piece overlaps one that is known.
  bool add(void* data, const Piece& piece);
  /// Forgets the piece that begins there; one of no bytes if there is none of this kind.
  Piece remove(void* data, Kind kind);
  /// The piece that holds these bytes; null if none holds all of them.
  const Piece* find(const void* data, std::size_t bytes) const;

 private:
  std::map<const std::byte*, Piece> pieces_;
};

}  // namespace troupe::host_cudart
