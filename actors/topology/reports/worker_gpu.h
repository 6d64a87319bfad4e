#pragma once

#include <string>

namespace troupe::actors {

/// The GPU that a worker computes with.
struct WorkerGpu {
  int index = -1;    ///< among those that CUDA shows to the worker; -1: it computes on a CPU
  std::string name;  ///< the product's
  std::string uuid;  ///< tensor::DeviceInfo::uuid
  bool operator==(const WorkerGpu&) const = default;
};

}  // namespace troupe::actors
