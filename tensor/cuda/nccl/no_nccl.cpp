#include "tensor/cuda/nccl/device_groups.h"

// In place of NCCL in a build that has not found its header.

namespace troupe::tensor::cuda {
namespace {

class NoGroups final : public DeviceGroups {
 public:
  MadeGroup make_group(const GroupSpec&, ProcessGroup&) override {
    return {.group = nullptr, .fault = "this build has no NCCL: CMake did not find nccl.h"};
  }
};

}  // namespace

std::unique_ptr<DeviceGroups> make_nccl_groups(Device&, const LibrarySearch&, GroupThreads) {
  return std::make_unique<NoGroups>();
}

}  // namespace troupe::tensor::cuda
