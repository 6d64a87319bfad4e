#include "tests/support/emulated_device.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tensor/cuda/attention/kernel_attention.h"
#include "tensor/cuda/attention/kernel_cached_attention.h"
#include "tensor/cuda/peers/kernel_one_shot_norm.h"
#include "tensor/cuda/runtime/kernel_stream.h"
#include "tensor/cuda/runtime/stream_memory.h"
#include "tensor/device/attention.h"
#include "tensor/device/linear.h"
#include "tests/emulated_grid/fault.h"
#include "tests/emulated_grid/grid.h"
#include "tests/fake_nccl/fake_nccl.h"
#include "tests/support/async_stream.h"
#include "tests/support/memory_of_descriptor.h"

namespace troupe::test {
namespace {

constexpr std::size_t kAlignment = 256;  // as cudaMalloc's
constexpr std::byte kGuardValue{0xa5};
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kGuard = 0;  // AddressSanitizer sees what comes behind a heap block
#else
constexpr std::size_t kGuard = 64;
#endif

}  // namespace

/// What lies before an allocation's bytes; guards fill the rest of the alignment and follow them.
struct EmulatedDevice::Block {
  EmulatedDevice* device;
  std::size_t bytes;
  std::byte before[kAlignment - sizeof(device) - sizeof(bytes)];

  std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }
  bool intact() {
    const auto is_guard = [](std::byte b) { return b == kGuardValue; };
    return std::ranges::all_of(before, is_guard) &&
           std::all_of(data() + bytes, data() + bytes + kGuard, is_guard);
  }
};

class EmulatedDevice::Stream final : public tensor::cuda::KernelStream {
 public:
  explicit Stream(EmulatedDevice& device)
      : device_(device), grid_(device.seed_, device.shared_limit_, &device) {}

  tensor::Device& device() override { return device_; }
  void synchronize() override {
    queue().drain();
    device_.check_memory();
  }
  cudaStream_t handle() const override { return grid_.stream(); }
  void* scratch(std::size_t bytes) override {
    queue().run([before = std::make_shared<tensor::Buffer>(std::move(scratch_))] {});
    // Of the size asked for, whatever there was, and full of NaNs, so that nobody relies on more.
    scratch_ = device_.allocate(bytes, tensor::MemoryKind::device);
    return std::memset(scratch_.data(), 0xff, bytes);
  }
  emulated_grid::StreamQueue& queue() { return grid_.queue(); }

 private:
  EmulatedDevice& device_;
  tensor::Buffer scratch_;
  mutable emulated_grid::Grid grid_;  // last: what it still runs may use the rest
};

namespace {

emulated_grid::StreamQueue& queue_of(cudaStream_t stream) {
  return emulated_grid::Grid::of(stream).queue();
}
emulated_grid::StreamQueue& queue_of(tensor::Stream& stream) {
  return queue_of(tensor::cuda::handle_of(stream));
}

/// The CPU's products, in the order of their stream.
class QueuedLinear final : public tensor::Linear {
 public:
  explicit QueuedLinear(std::unique_ptr<tensor::Linear> cpu) : cpu_(std::move(cpu)) {}

  std::size_t packed_bytes() const override { return cpu_->packed_bytes(); }
  tensor::ScratchBytes scratch_bytes() const override { return cpu_->scratch_bytes(); }
  void set_scratch(const tensor::Scratch& scratch) override { cpu_->set_scratch(scratch); }
  tensor::Tensor packed_copy(void* packed) const override { return cpu_->packed_copy(packed); }
  void pack(tensor::Stream& stream, const tensor::Tensor& w, void* packed) override {
    queue_of(stream).run([=, this, &stream] { cpu_->pack(stream, w, packed); });
  }
  void forward(tensor::Stream& stream, const tensor::Tensor& x, const void* packed,
               const tensor::Tensor& y, const tensor::Tensor& residual) override {
    queue_of(stream).run([=, this, &stream] { cpu_->forward(stream, x, packed, y, residual); });
  }
  void input_gradient(tensor::Stream& stream, const tensor::Tensor& dy, const void* packed,
                      const tensor::Tensor& dx) override {
    queue_of(stream).run([=, this, &stream] { cpu_->input_gradient(stream, dy, packed, dx); });
  }
  void weight_gradient(tensor::Stream& stream, const tensor::Tensor& dy, const tensor::Tensor& x,
                       const tensor::Tensor& dw, tensor::Gradient gradient) override {
    queue_of(stream).run(
        [=, this, &stream] { cpu_->weight_gradient(stream, dy, x, dw, gradient); });
  }

 private:
  const std::unique_ptr<tensor::Linear> cpu_;
};

/// A mark in a stream, which is reached at once while the stream waits for nobody.
class EmulatedEvent final : public tensor::Event {
 public:
  explicit EmulatedEvent(AsyncHealth& health) : health_(health) {}

  void record(tensor::Stream& stream) override {
    mark_ = std::make_shared<AsyncMark>(health_);
    queue_of(stream).run([mark = mark_] { mark->reach(); });
  }
  void wait(tensor::Stream& stream) override {
    if (mark_ && !mark_->is_reached()) queue_of(stream).run_apart([mark = mark_] { mark->wait(); });
  }
  void synchronize() override {
    if (mark_) mark_->synchronize();
  }
  bool done() const override { return !mark_ || mark_->is_reached(); }
  void on_reached(void (*call)(void*), void* argument) override {
    mark_ ? mark_->on_reached(call, argument) : call(argument);
  }
  double reached_s() const override { return mark_->reached_s(); }

 private:
  AsyncHealth& health_;
  std::shared_ptr<AsyncMark> mark_;
};

// What the fake NCCL asks of a stream.

void run_on(cudaStream_t stream, void (*call)(void*), void* argument) {
  queue_of(stream).run_apart([=] { call(argument); });
}
const void* gpu_of(cudaStream_t stream) {
  return emulated_grid::Grid::of(stream).owner();
}

}  // namespace

EmulatedDevice::EmulatedDevice(std::uint64_t seed, std::size_t shared_limit,
                               tensor::LibrarySearch search, std::chrono::milliseconds deadline)
    : seed_(seed),
      shared_limit_(shared_limit),
      cpu_(tensor::make_cpu_device(1)),
      preparation_(std::make_unique<Stream>(*this)),
      search_(std::move(search)),
      deadline_(deadline) {}

EmulatedDevice::~EmulatedDevice() = default;

tensor::Buffer EmulatedDevice::allocate(std::size_t bytes, tensor::MemoryKind kind) {
  static_assert(sizeof(Block) == kAlignment);
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, sizeof(Block) + bytes + kGuard)) throw std::bad_alloc();
  auto* block = new (memory) Block{.device = this, .bytes = bytes, .before = {}};
  std::ranges::fill(block->before, kGuardValue);
  std::fill_n(block->data(), bytes, std::byte{0});
  std::fill_n(block->data() + bytes, kGuard, kGuardValue);
  const std::lock_guard lock(mutex_);
  blocks_.insert(block);
  return {block->data(), bytes, kind, release};
}

void EmulatedDevice::release(void* data, std::size_t) {
  Block* block = static_cast<Block*>(data) - 1;
  {
    const std::lock_guard lock(block->device->mutex_);
    block->device->blocks_.erase(block);
  }
  std::free(block);
}

tensor::SharedMemory EmulatedDevice::share(std::size_t bytes) {
  const std::size_t size = std::max<std::size_t>(bytes, 1);
  const int descriptor = make_shared_bytes(size);
  return {map(descriptor, size), descriptor};
}

tensor::Buffer EmulatedDevice::map(int descriptor, std::size_t bytes) {
  void* const data = map_shared_bytes(descriptor, bytes);
  if (!data) return {};
  return {data, bytes, tensor::MemoryKind::device,
          [](void* memory, std::size_t size) { ::munmap(memory, size); }};
}

void EmulatedDevice::check_memory() const {
  const std::lock_guard lock(mutex_);
  for (Block* block : blocks_) {
    if (block->intact()) continue;
    throw emulated_grid::Fault(
        fmt::format("a kernel wrote outside a tensor's memory of {} bytes", block->bytes));
  }
}

std::unique_ptr<tensor::Stream> EmulatedDevice::make_stream() {
  return std::make_unique<Stream>(*this);
}

tensor::DeviceMemory EmulatedDevice::memory() const {
  const std::lock_guard lock(mutex_);
  std::size_t used = 0;
  for (const Block* block : blocks_) used += block->bytes;
  return {.used = used, .total = std::size_t{1} << 40};
}

/// The real NCCL knows nothing of these streams.
tensor::MadeGroup EmulatedDevice::make_group(const tensor::GroupSpec& spec,
                                             tensor::ProcessGroup& hosts) {
  if (!groups_) {
    const auto library = tensor::open_cuda_library(search_, "libnccl.so.2");
    void* const use = library.symbol("fakeNcclUseStreams");
    if (library.handle && !use) return {};
    const FakeNcclStreams streams{.run = run_on, .gpu_of = gpu_of};
    if (use) reinterpret_cast<decltype(&fakeNcclUseStreams)>(use)(&streams);
    const auto on_overdue = [] {
      std::fputs("the fake NCCL does not end its communicators\n", stderr);
      std::_Exit(EXIT_FAILURE);
    };
    groups_ = tensor::cuda::make_nccl_groups(
        *this, search_, {.begin = [] {}, .deadline = deadline_, .on_overdue = on_overdue});
  }
  return groups_->make_group(spec, hosts);
}

std::array<std::uint64_t, 2> EmulatedDevice::hardware() const {
  return {static_cast<std::uint64_t>(::getpid()), reinterpret_cast<std::uintptr_t>(this)};
}

std::unique_ptr<tensor::OneShotNorm> EmulatedDevice::make_one_shot_norm(tensor::PeerMemory memory) {
  return std::make_unique<tensor::cuda::KernelOneShotNorm>(*this, std::move(memory));
}

std::unique_ptr<tensor::Event> EmulatedDevice::make_event() {
  return std::make_unique<EmulatedEvent>(health_);
}

std::unique_ptr<tensor::Linear> EmulatedDevice::make_linear(const tensor::LinearShape& shape) {
  return std::make_unique<QueuedLinear>(cpu_->make_linear(shape));
}

std::unique_ptr<tensor::Attention> EmulatedDevice::make_attention(
    const tensor::AttentionShape& shape) {
  return std::make_unique<tensor::cuda::KernelAttention>(shape, *preparation_);
}

std::unique_ptr<tensor::CachedAttention> EmulatedDevice::make_cached_attention(
    const tensor::CachedAttentionShape& shape) {
  return std::make_unique<tensor::cuda::KernelCachedAttention>(shape);
}

}  // namespace troupe::test

namespace troupe::tensor::cuda {

using emulated_grid::Grid;

void queue_copy(void* dst, const void* src, std::size_t bytes, cudaStream_t stream) {
  Grid::of(stream).queue().run([=] { std::memcpy(dst, src, bytes); });
}

void queue_copy_rows(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                     std::size_t row_bytes, std::size_t rows, cudaStream_t stream) {
  Grid::of(stream).queue().run([=] {
    for (std::size_t row = 0; row < rows; ++row) {
      std::memcpy(static_cast<std::byte*>(dst) + row * dst_pitch,
                  static_cast<const std::byte*>(src) + row * src_pitch, row_bytes);
    }
  });
}

void queue_zeros(void* memory, std::size_t bytes, cudaStream_t stream) {
  Grid::of(stream).queue().run([=] { std::memset(memory, 0, bytes); });
}

}  // namespace troupe::tensor::cuda
