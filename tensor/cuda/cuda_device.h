#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tensor/cuda/attention/cudnn_plans.h"
#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/nccl/device_groups.h"
#include "tensor/cuda/products/algorithm_store.h"
#include "tensor/cuda/products/cuda_product.h"
#include "tensor/cuda/runtime/cuda_event.h"
#include "tensor/cuda/runtime/gpu_memory.h"
#include "tensor/device/device.h"
#include "tensor/device/one_shot_norm.h"
#include "tensor/device/process_group.h"
#include "tensor/device/shared_memory.h"

namespace troupe::tensor::cuda {

/// One GPU of those that gpus.h takes, for this process. Memory is allocated plainly, one piece per
/// call, and zeroed (GpuMemory tells for what an allocation waits); streams are ordered by events
/// alone; host waits sleep.
class CudaDevice final : public Device, public OneShotDevice {
 public:
  /// `tell` is called with what a user should know about this GPU and did not ask for. Throws
  /// Error{unavailable} if there is no driver or no such GPU.
  CudaDevice(const DeviceSpec& spec, const CudnnPlans::Tell& tell);
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() override;

  Buffer allocate(std::size_t bytes, MemoryKind kind) override;
  SharedMemory share(std::size_t bytes) override;
  Buffer map(int descriptor, std::size_t bytes) override;
  bool pin(void* data, std::size_t bytes) override;
  void unpin(void* data) override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override;
  std::unique_ptr<Event> make_timed_event() override;
  bool host_reads_memory() const override { return false; }
  DeviceMemory memory() const override;
  Ops& ops() override { return ops_; }
  std::unique_ptr<Linear> make_linear(const LinearShape& shape) override;
  std::unique_ptr<Attention> make_attention(const AttentionShape& shape) override;
  std::unique_ptr<CachedAttention> make_cached_attention(
      const CachedAttentionShape& shape) override;
  MadeGroup make_group(const GroupSpec& spec, ProcessGroup& hosts) override;
  std::array<std::uint64_t, 2> hardware() const override { return hardware_; }
  std::unique_ptr<OneShotNorm> make_one_shot_norm(PeerMemory memory) override;

 private:
  void* pin(std::size_t bytes) const;

  const DeviceSpec spec_;
  std::string name_;
  std::array<std::uint64_t, 2> hardware_{};  ///< the UUID
  CudaOps ops_;
  std::optional<GpuMemory> memory_;  ///< from the constructor on
  std::unique_ptr<DeviceClock> clock_;
  std::unique_ptr<CudaStream> preparation_;  // for what attention computes once
  CudnnPlans plans_;
  std::optional<AlgorithmStore> store_;
  ProductLibrary products_;
  std::unique_ptr<DeviceGroups> groups_;  ///< once they were asked for
};

}  // namespace troupe::tensor::cuda
