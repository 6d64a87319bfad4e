#pragma once

#include "tensor/device_library.h"

namespace troupe::launch {

/// What this machine has for CUDA. Asks a process of its own, `troupe devices`, because a process
/// that has called CUDA cannot start others that do, and because a broken driver may crash or hang.
/// Then `fault` tells of it. It starts the running program again, so only the program `troupe` may
/// call it: a test would run itself without end. Throws nothing.
tensor::DeviceReport own_gpus();

}  // namespace troupe::launch
