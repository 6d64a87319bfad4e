#pragma once

#include <memory>

#include "launch/host/machine.h"
#include "tensor/device.h"

namespace troupe::launch {

/// The processor for a command that works alone; 0 threads: one a free core.
inline std::unique_ptr<tensor::Device> device_for(int threads) {
  return tensor::make_cpu_device(threads > 0 ? threads : this_machine().free_cores);
}

}  // namespace troupe::launch
