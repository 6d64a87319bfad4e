#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "tensor/device/device.h"

namespace troupe::test {

/// Which memory of the host the ops of a device of tests may use.
enum class HostMemory {
  any,     ///< for tests that hand over memory as they have it
  pinned,  ///< as a GPU
};

/// The host memory that the ops of a device may use: what it has allocated, and what others have
/// pinned. Used by any thread. Outlives what it allocates.
class PinnedMemory {
 public:
  explicit PinnedMemory(HostMemory allowed) : allowed_(allowed) {}

  tensor::Buffer allocate(std::size_t bytes) {
    void* const block = std::aligned_alloc(kHeader, kHeader + (bytes / kHeader + 1) * kHeader);
    if (!block) throw std::bad_alloc();
    new (block) PinnedMemory*(this);
    std::byte* const data = static_cast<std::byte*>(block) + kHeader;
    std::memset(data, 0, bytes);
    add(data, bytes);
    return {data, bytes, tensor::MemoryKind::pinned, release};
  }
  void add(const void* data, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    ranges_[static_cast<const std::byte*>(data)] = bytes;
  }
  void remove(const void* data) {
    const std::lock_guard lock(mutex_);
    ranges_.erase(static_cast<const std::byte*>(data));
  }
  bool admits(const std::byte* data, std::size_t bytes) const {
    if (allowed_ == HostMemory::any) return true;
    const std::lock_guard lock(mutex_);
    const auto next = ranges_.upper_bound(data);
    if (next == ranges_.begin()) return false;
    const auto& [begin, size] = *std::prev(next);
    return data + bytes <= begin + size;
  }

 private:
  static constexpr std::size_t kHeader = 256;

  static void release(void* data, std::size_t) {
    void* const block = static_cast<std::byte*>(data) - kHeader;
    (*static_cast<PinnedMemory**>(block))->remove(data);
    std::free(block);
  }

  const HostMemory allowed_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> ranges_;
};

}  // namespace troupe::test
