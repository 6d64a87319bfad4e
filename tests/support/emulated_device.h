#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>

#include "tensor/cuda/cuda_ops.h"
#include "tensor/cuda/kernels/grid/grid_types.h"
#include "tensor/cuda/nccl/device_groups.h"
#include "tensor/device/device.h"
#include "tensor/device/one_shot_norm.h"
#include "tensor/device/process_group.h"
#include "tensor/device/shared_memory.h"
#include "tensor/libraries/library_search.h"
#include "tests/support/async_stream.h"

namespace troupe::test {

/// A GPU without a GPU: its ops and its attention are CUDA's kernels on an emulated grid, its
/// products the CPU's. An op has run when its call returns, unless its stream waits for a
/// collective of the device or for an event behind one: then ops are queued as on a GPU. Memory is
/// the host's, in heap blocks of exactly the size asked for, so that AddressSanitizer sees an
/// access outside; without it a write outside is found by the stream's synchronize(), which throws
/// emulated_grid::Fault. Memory that processes share has no such guards. As with a GPU, nobody but
/// the device should follow a pointer to device memory.
class EmulatedDevice : public tensor::Device, public tensor::OneShotDevice {
 public:
  /// The order of threads and blocks follows `seed`; for `shared_limit` see emulated_grid::Grid.
  /// Its groups are on the fake NCCL, if `search` finds that first; they end the process if an end
  /// takes longer than `deadline`.
  explicit EmulatedDevice(std::uint64_t seed, std::size_t shared_limit = tensor::cuda::kSharedOf90,
                          tensor::LibrarySearch search = tensor::LibrarySearch::of_this_process(),
                          std::chrono::milliseconds deadline = std::chrono::seconds(60));
  ~EmulatedDevice() override;

  tensor::Buffer allocate(std::size_t bytes, tensor::MemoryKind kind) override;
  tensor::SharedMemory share(std::size_t bytes) override;
  tensor::Buffer map(int descriptor, std::size_t bytes) override;
  std::unique_ptr<tensor::Stream> make_stream() override;
  std::unique_ptr<tensor::Event> make_event() override;
  std::unique_ptr<tensor::Event> make_timed_event() override { return make_event(); }
  bool host_reads_memory() const override { return false; }
  tensor::DeviceMemory memory() const override;
  tensor::MadeGroup make_group(const tensor::GroupSpec& spec, tensor::ProcessGroup& hosts) override;
  /// Another one for each device, as if each were a GPU of its own.
  std::array<std::uint64_t, 2> hardware() const override;
  std::unique_ptr<tensor::OneShotNorm> make_one_shot_norm(tensor::PeerMemory memory) override;
  tensor::Ops& ops() override { return ops_; }
  std::unique_ptr<tensor::Linear> make_linear(const tensor::LinearShape& shape) override;
  std::unique_ptr<tensor::Attention> make_attention(const tensor::AttentionShape& shape) override;
  std::unique_ptr<tensor::CachedAttention> make_cached_attention(
      const tensor::CachedAttentionShape& shape) override;

 private:
  class Stream;
  struct Block;

  static void release(void* data, std::size_t bytes);
  void check_memory() const;

  const std::uint64_t seed_;
  const std::size_t shared_limit_;
  const std::unique_ptr<tensor::Device> cpu_;
  AsyncHealth health_{{}};  // of a device that never fails
  tensor::cuda::CudaOps ops_;
  mutable std::mutex mutex_;  // of blocks_
  std::set<Block*> blocks_;
  const std::unique_ptr<Stream> preparation_;  // its memory is of this device
  const tensor::LibrarySearch search_;
  const std::chrono::milliseconds deadline_;
  std::unique_ptr<tensor::cuda::DeviceGroups> groups_;  ///< once they were asked for
};

}  // namespace troupe::test
