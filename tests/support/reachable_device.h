#pragma once

#include "tensor/device/attention.h"
#include "tensor/device/linear.h"
#include "tensor/device/ops.h"
#include "tensor/device/shared_memory.h"
#include "tests/support/memory_of_descriptor.h"

namespace troupe::test {

/// A device that says that the host does not read its memory, though a test can: the CPU, with
/// memory that processes share if it may. Its ops have run when their calls return.
class ReachableDevice : public tensor::Device {
 public:
  bool can_share = true, can_map = true, can_pin = true;

  tensor::Buffer allocate(std::size_t bytes, tensor::MemoryKind kind) override {
    return cpu_->allocate(bytes, kind);
  }
  tensor::SharedMemory share(std::size_t bytes) override {
    if (!can_share) return {};
    const int descriptor = make_shared_bytes(bytes);
    return {mapped(descriptor, bytes), descriptor};
  }
  tensor::Buffer map(int descriptor, std::size_t bytes) override {
    return can_map ? mapped(descriptor, bytes) : tensor::Buffer();
  }
  bool pin(void*, std::size_t) override { return can_pin; }
  std::unique_ptr<tensor::Stream> make_stream() override { return cpu_->make_stream(); }
  std::unique_ptr<tensor::Event> make_event() override { return cpu_->make_event(); }
  std::unique_ptr<tensor::Event> make_timed_event() override { return cpu_->make_timed_event(); }
  bool host_reads_memory() const override { return false; }
  tensor::Ops& ops() override { return cpu_->ops(); }
  std::unique_ptr<tensor::Linear> make_linear(const tensor::LinearShape& shape) override {
    return cpu_->make_linear(shape);
  }
  std::unique_ptr<tensor::Attention> make_attention(const tensor::AttentionShape& shape) override {
    return cpu_->make_attention(shape);
  }
  std::unique_ptr<tensor::CachedAttention> make_cached_attention(
      const tensor::CachedAttentionShape& shape) override {
    return cpu_->make_cached_attention(shape);
  }

 private:
  static tensor::Buffer mapped(int descriptor, std::size_t bytes) {
    void* const data = map_shared_bytes(descriptor, bytes);
    if (!data) return {};
    return {data, bytes, tensor::MemoryKind::device,
            [](void* memory, std::size_t size) { ::munmap(memory, size); }};
  }

  const std::unique_ptr<tensor::Device> cpu_ = tensor::make_cpu_device(1);
};

}  // namespace troupe::test
