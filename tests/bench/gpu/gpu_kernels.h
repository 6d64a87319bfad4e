#pragma once

#include <string>
#include <vector>

#include "tensor/device/device.h"

namespace troupe::bench {

/// An op of the device, and the bytes that it must read and write.
struct KernelTime {
  std::string name;
  double bytes = 0;
  double seconds = 0;  ///< median of 20 calls, each between two events of the device
};

/// Times of the memory-bound ops at the sizes of a layer of a model with 7 billion parameters, 8192
/// tokens in bfloat16, after that of a copy within the device, which is the first.
std::vector<KernelTime> measure_kernels(tensor::Device& device);

}  // namespace troupe::bench
