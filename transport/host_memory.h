#pragma once

#include <cstddef>

#include "tensor/device.h"

namespace troupe::transport {

/// Zeroed host memory, aligned to 64 bytes at least, with its pages present: no page fault comes
/// later. Throws std::bad_alloc.
tensor::Buffer allocate_host(std::size_t bytes);

}  // namespace troupe::transport
