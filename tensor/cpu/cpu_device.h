#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "tensor/cpu/ops/cpu_ops.h"
#include "tensor/device/device.h"
#include "tensor/device/host_memory.h"

namespace troupe::tensor {

/// The host as a device: every op has run when its call returns, so streams and events have no
/// state.
class CpuDevice final : public Device {
 public:
  explicit CpuDevice(int threads);

  /// Allocates host memory for every kind. Memory of 2 MiB and more is aligned for huge pages and
  /// asks for them.
  Buffer allocate(std::size_t bytes, MemoryKind kind) override;
  void reserve(std::size_t bytes) override;
  std::size_t give_back(const Buffer& memory) override;
  void bring_back(const Buffer& memory) override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Event> make_event() override;
  std::unique_ptr<Event> make_timed_event() override;
  bool host_reads_memory() const override { return true; }
  Ops& ops() override { return ops_; }
  std::unique_ptr<Linear> make_linear(const LinearShape& shape) override;
  std::unique_ptr<GroupedLinear> make_grouped_linear(const GroupedLinearShape& shape) override;
  std::unique_ptr<Attention> make_attention(const AttentionShape& shape) override;
  std::unique_ptr<CachedAttention> make_cached_attention(
      const CachedAttentionShape& shape) override;

 private:
  const int threads_;
  CpuOps ops_;
  std::mutex mutex_;  // guards reserve_
  std::unique_ptr<HostReserve> reserve_;
};

/// The version of the oneDNN that the program has found, as "2.6.3". Another one may multiply with
/// other instructions, and so give other last bits.
std::string one_dnn_version();

}  // namespace troupe::tensor
