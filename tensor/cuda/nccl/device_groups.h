#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "tensor/device/process_group.h"
#include "tensor/libraries/library_search.h"

namespace troupe::tensor::cuda {

/// The groups of a device that communicate by NCCL.
class DeviceGroups {
 public:
  virtual ~DeviceGroups() = default;
  /// What Device::make_group() does.
  virtual MadeGroup make_group(const GroupSpec& spec, ProcessGroup& hosts) = 0;
};

/// How the threads of a device's groups begin, and how long NCCL may take to end.
struct GroupThreads {
  std::function<void()> begin;  ///< makes the device that of the calling thread
  std::chrono::milliseconds deadline{0};
  /// Called once an end has taken longer. It does not return: a thread of NCCL is stuck, and only
  /// the end of the process frees what it holds.
  std::function<void()> on_overdue;
};

/// Opens NCCL at once; if that fails, make_group() tells why. The device's streams are
/// KernelStreams; it outlives the groups. Of a build without NCCL's header there are none.
std::unique_ptr<DeviceGroups> make_nccl_groups(Device& device, const LibrarySearch& search,
                                               GroupThreads threads);

}  // namespace troupe::tensor::cuda
