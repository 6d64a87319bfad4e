#pragma once

#include <cstddef>
#include <utility>

#include "tensor/device/device.h"

namespace troupe::tensor {

/// Memory of a device that other processes of this machine can map (Device::map), and the file
/// descriptor that names it there. Empty if the device cannot share. Move-only; closes the
/// descriptor, which those who have mapped the memory do not need any more.
class SharedMemory {
 public:
  SharedMemory() = default;
  /// Takes over both.
  SharedMemory(Buffer memory, int descriptor)
      : memory_(std::move(memory)), descriptor_(descriptor) {}
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedMemory();

  explicit operator bool() const { return descriptor_ >= 0; }
  const Buffer& memory() const { return memory_; }
  int descriptor() const { return descriptor_; }

 private:
  void swap(SharedMemory& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(descriptor_, other.descriptor_);
  }

  Buffer memory_;
  int descriptor_ = -1;
};

}  // namespace troupe::tensor
