#include "transport/host_memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace troupe::transport {

tensor::Buffer allocate_host(std::size_t bytes) {
  constexpr std::size_t kHugePage = 2u << 20;
  const std::size_t alignment = bytes >= kHugePage ? kHugePage : 64;
  const std::size_t size = (bytes + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, size);
  if (!data) throw std::bad_alloc();
  // Advice only: fewer pages make the copy to a neighbour's memory faster.
  if (bytes >= kHugePage) ::madvise(data, size, MADV_HUGEPAGE);
  std::memset(data, 0, size);
  return {data, size, tensor::MemoryKind::host,
          [](void* memory, std::size_t) { std::free(memory); }};
}

}  // namespace troupe::transport
