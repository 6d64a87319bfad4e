#pragma once

#include <cstddef>

#include "tensor/device/shared_memory.h"

namespace troupe::tensor::cuda {

/// Zeroed memory of GPU `device`, which is the calling thread's, in whole units of its granularity.
/// It lives as long as any process maps it: what the driver calls virtual memory, exported as a
/// file descriptor. Empty if the driver gives none. Throws nothing else than CUDA's own errors.
SharedMemory share_device_memory(int device, std::size_t bytes);
/// Maps such memory of this GPU or one whose memory it reaches. Empty if that is refused.
Buffer map_device_memory(int device, int descriptor, std::size_t bytes);

}  // namespace troupe::tensor::cuda
