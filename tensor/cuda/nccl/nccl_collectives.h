#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tensor/cuda/nccl/device_groups.h"
#include "tensor/cuda/nccl/nccl_library.h"
#include "tensor/cuda/nccl/nccl_service.h"
#include "tensor/cuda/runtime/kernel_stream.h"
#include "tensor/device/process_group.h"
#include "tensor/libraries/library_search.h"

namespace troupe::tensor::cuda {

/// What all groups on NCCL of a device share: its communicators, and the one stream on which their
/// collectives run in the order of the calls. Two kernels of NCCL that wait for other GPUs must not
/// be under way in another order elsewhere, for either may keep the other from running.
class NcclCollectives final : public DeviceGroups {
 public:
  /// Opens NCCL at once. If that fails, make_group() tells why. The device's streams are
  /// KernelStreams; it outlives this.
  NcclCollectives(Device& device, const LibrarySearch& search, GroupThreads threads);
  NcclCollectives(const NcclCollectives&) = delete;
  NcclCollectives& operator=(const NcclCollectives&) = delete;

  /// A group of one member has no communicator.
  MadeGroup make_group(const GroupSpec& spec, ProcessGroup& hosts) override;

  Device& device() { return device_; }
  KernelStream& stream() { return *stream_; }
  /// The stream of sums beside what travels.
  KernelStream& adding() { return *adding_; }
  NcclService& service() { return *service_; }

 private:
  std::string fault_of_members(ProcessGroup& hosts, Stream& stream) const;
  std::shared_ptr<NcclCommunicator> communicator_of(const GroupSpec& spec, ProcessGroup& hosts,
                                                    Stream& stream);

  Device& device_;
  std::optional<NcclLibrary> library_;
  std::string fault_;  ///< why there is no library
  std::unique_ptr<KernelStream> stream_, adding_;
  std::optional<NcclService> service_;
};

}  // namespace troupe::tensor::cuda
