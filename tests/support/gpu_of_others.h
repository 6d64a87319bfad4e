#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "tensor/cuda/runtime/gpu_memory.h"

namespace troupe::test {

/// A GPU all of whose memory is a dead process's while a file exists: the driver gives it back, and
/// the file is removed, after a few allocations that found no room. A process asks as it asks a
/// real GPU, of functions that stand in for CUDA's; nothing of the memory is used.
class GpuOfOthers {
 public:
  /// `file` may be empty. A process that began without the file asks for nothing.
  GpuOfOthers(const std::string& file, tensor::cuda::GpuMemory::Tell tell);

  /// Returns when the GPU has room; throws as GpuMemory::allocate() does. Any thread may call.
  void wait_for_room(std::size_t bytes);

 private:
  std::optional<tensor::cuda::GpuMemory> memory_;
};

}  // namespace troupe::test
