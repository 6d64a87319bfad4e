#pragma once

#include <cstddef>

#include "tensor/device.h"

namespace troupe::tensor {

/// Zeroed memory of the host, aligned to 64 bytes at least, with its pages present: no page fault
/// comes later. Throws std::bad_alloc.
Buffer allocate_host(std::size_t bytes, MemoryKind kind = MemoryKind::host);

/// Makes the pages of a mapping present in one go, which costs a fraction of a fault for each. What
/// they hold stays. False where the system cannot.
bool make_present(void* mapping, std::size_t bytes);

}  // namespace troupe::tensor
