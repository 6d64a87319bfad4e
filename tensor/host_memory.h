#pragma once

#include <cstddef>
#include <optional>

#include "tensor/device.h"

namespace troupe::tensor {

/// Zeroed memory of the host, aligned to 64 bytes at least, with its pages present: no page fault
/// comes later. Throws std::bad_alloc.
Buffer allocate_host(std::size_t bytes, MemoryKind kind = MemoryKind::host);

/// Pages that are present and zero, for allocations to come.
class HostReserve {
 public:
  /// Room for allocations of so many bytes in all. Throws std::bad_alloc.
  explicit HostReserve(std::size_t bytes);
  ~HostReserve();
  HostReserve(const HostReserve&) = delete;
  HostReserve& operator=(const HostReserve&) = delete;
  /// Host memory out of the reserve. None if too little is left, or if so few bytes are asked for
  /// that a page of the reserve would be wasted.
  std::optional<Buffer> take(std::size_t bytes, MemoryKind kind);

 private:
  std::byte* next_ = nullptr;
  std::size_t size_ = 0;
};

/// Makes the pages of a mapping present in one go, which costs a fraction of a fault for each. What
/// they hold stays. False where the system cannot.
bool make_present(void* mapping, std::size_t bytes);

}  // namespace troupe::tensor
