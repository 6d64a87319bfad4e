#pragma once

#include <cstddef>
#include <optional>

#include "tensor/device/device.h"

namespace troupe::tensor {

/// Zeroed memory of the host, aligned to 64 bytes at least, with its pages present, so that no page
/// fault comes later. Throws std::bad_alloc.
Buffer allocate_host(std::size_t bytes, MemoryKind kind = MemoryKind::host);

/// Gives the pages of an allocation of allocate_host() back to the system: its content is zero
/// then, and pages come when it is used again, one by one, or all by make_present(). Returns the
/// bytes; 0 for a small allocation, whose content stays.
std::size_t give_back_pages(const Buffer& memory);

/// Pages that are present and zero, for later allocations.
class HostReserve {
 public:
  /// Makes room for allocations of `bytes` in all. Throws std::bad_alloc.
  explicit HostReserve(std::size_t bytes);
  ~HostReserve();
  HostReserve(const HostReserve&) = delete;
  HostReserve& operator=(const HostReserve&) = delete;
  /// Takes host memory out of the reserve. None if too little is left, or if `bytes` is so small
  /// that a page of the reserve would be wasted.
  std::optional<Buffer> take(std::size_t bytes, MemoryKind kind);

 private:
  std::byte* next_ = nullptr;
  std::size_t size_ = 0;
};

/// Makes all pages of a mapping present in one call, which costs a fraction of one fault per page.
/// Their content stays. False if the system cannot do it.
bool make_present(void* mapping, std::size_t bytes);

}  // namespace troupe::tensor
