#pragma once

#include <memory>

#include "launch/host/machine.h"
#include "tensor/device.h"

namespace troupe::launch {

/// The CPU device of a command that works without a cluster. With 0 threads it has one thread for
/// each free core.
inline std::unique_ptr<tensor::Device> device_for(int threads) {
  return tensor::make_cpu_device(threads > 0 ? threads : this_machine().free_cores);
}

}  // namespace troupe::launch
