#include "tensor/device/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace troupe::tensor {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and a vector of AVX-512
constexpr std::size_t kHugePage = std::size_t{2} << 20;
/// Number of allocations whose rounding up a reserve has room for.
constexpr std::size_t kSpareAllocations = 8;
constexpr std::size_t kLargest = PTRDIFF_MAX - 2 * kHugePage;  // rounding up stays in range

std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

/// Maps fresh pages, aligned to huge ones. They are zero already, unlike memory that was used
/// before, which would have to be cleared.
std::byte* map_huge_pages(std::size_t size) {
  void* const all =
      ::mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) throw std::bad_alloc();
  auto* const begin = static_cast<std::byte*>(all);
  const std::size_t before = rounded_up(reinterpret_cast<std::uintptr_t>(all), kHugePage) -
                             reinterpret_cast<std::uintptr_t>(all);
  if (before > 0) ::munmap(begin, before);
  if (before < kHugePage) ::munmap(begin + before + size, kHugePage - before);
  return begin + before;
}

std::byte* map_present(std::size_t size) {
  std::byte* const data = map_huge_pages(size);
  ::madvise(data, size, MADV_HUGEPAGE);  // only advice: copies are faster with fewer pages
  if (!make_present(data, size)) std::memset(data, 0, size);
  return data;
}

void unmap(void* memory, std::size_t bytes) {
  ::munmap(memory, rounded_up(bytes, kHugePage));
}

}  // namespace

bool make_present(void* mapping, std::size_t bytes) {
  return ::madvise(mapping, bytes, MADV_POPULATE_WRITE) == 0;
}

Buffer allocate_host(std::size_t bytes, MemoryKind kind) {
  if (bytes > kLargest) throw std::bad_alloc();
  if (bytes < kHugePage) {
    const std::size_t size = std::max(kAlignment, rounded_up(bytes, kAlignment));
    void* const data = std::aligned_alloc(kAlignment, size);
    if (!data) throw std::bad_alloc();
    std::memset(data, 0, size);
    return {data, bytes, kind, [](void* memory, std::size_t) { std::free(memory); }};
  }
  const std::size_t size = rounded_up(bytes, kHugePage);
  return {map_present(size), bytes, kind, &unmap};
}

std::size_t give_back_pages(const Buffer& memory) {
  if (memory.bytes() < kHugePage) return 0;
  const std::size_t size = rounded_up(memory.bytes(), kHugePage);
  return ::madvise(memory.data(), size, MADV_DONTNEED) == 0 ? memory.bytes() : 0;
}

HostReserve::HostReserve(std::size_t bytes) {
  if (bytes > kLargest) throw std::bad_alloc();
  size_ = rounded_up(bytes, kHugePage) + kSpareAllocations * kHugePage;
  next_ = map_present(size_);
}

HostReserve::~HostReserve() {
  if (size_ > 0) ::munmap(next_, size_);
}

std::optional<Buffer> HostReserve::take(std::size_t bytes, MemoryKind kind) {
  if (bytes < kHugePage || bytes > size_) return std::nullopt;
  std::byte* const data = std::exchange(next_, next_ + rounded_up(bytes, kHugePage));
  size_ -= rounded_up(bytes, kHugePage);
  return Buffer(data, bytes, kind, &unmap);
}

}  // namespace troupe::tensor
