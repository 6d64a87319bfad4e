#pragma once

#include <memory>
#include <string>

#include "launch/host/machine.h"
#include "tensor/device.h"

namespace troupe::launch {

/// The number of threads of a command that works without a cluster: with 0 one for each free core.
inline int threads_of(int threads) {
  return threads > 0 ? threads : this_machine().free_cores;
}

/// The device of a command that works without a cluster: "cpu" or "cuda". With 0 threads a CPU has
/// one thread for each free core. Throws Error{unavailable} if there is no such device.
inline std::unique_ptr<tensor::Device> device_for(const std::string& device, int threads) {
  return tensor::make_device(
      {.kind = device == "cuda" ? tensor::DeviceKind::cuda : tensor::DeviceKind::cpu,
       .threads = threads_of(threads)});
}

}  // namespace troupe::launch
