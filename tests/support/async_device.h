#pragma once

#include "tensor/device/attention.h"
#include "tensor/device/grouped_linear.h"
#include "tensor/device/linear.h"
#include "tensor/device/shared_memory.h"
#include "tests/support/async_ops.h"
#include "tests/support/async_stream.h"
#include "tests/support/memory_of_descriptor.h"

namespace troupe::test {

/// The CPU as an accelerator: a call returns before its op has run, streams run at the same time,
/// only events order them, and the host cannot touch device memory (guarded_memory.h), nor ops host
/// memory that is not pinned, if it is made so. Processes can share its memory. Computes the same
/// bits as the CPU. Streams may be made by any thread. It can fail as a GPU does.
class AsyncDevice final : public tensor::Device {
 public:
  /// `threads` is the number of OpenMP threads of an op, `fails` says which op fails. `memory` is
  /// how many bytes the device has; 0: any number.
  explicit AsyncDevice(std::uint64_t seed, int threads = 1, AsyncHealth::Fails fails = {},
                       HostMemory host = HostMemory::any, std::size_t memory = 0)
      : threads_(threads),
        health_(std::move(fails)),
        pinned_(host),
        seeds_(seed),
        space_{.total = memory},
        cpu_(tensor::make_cpu_device(threads)) {}

  tensor::Buffer allocate(std::size_t bytes, tensor::MemoryKind kind) override {
    if (kind == tensor::MemoryKind::device) return allocate_guarded(bytes, space_);
    return kind == tensor::MemoryKind::pinned ? pinned_.allocate(bytes)
                                              : cpu_->allocate(bytes, kind);
  }
  tensor::SharedMemory share(std::size_t bytes) override {
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    const int descriptor = make_shared_bytes(size);
    return {map(descriptor, size), descriptor};
  }
  tensor::Buffer map(int descriptor, std::size_t bytes) override {
    void* const data = map_shared_bytes(descriptor, bytes);
    if (!data) return {};
    return {guarded(data), bytes, tensor::MemoryKind::device,
            [](void* memory, std::size_t size) { ::munmap(opened(memory), size); }};
  }
  bool pin(void* data, std::size_t bytes) override {
    pinned_.add(data, bytes);
    return true;
  }
  void unpin(void* data) override { pinned_.remove(data); }
  std::unique_ptr<tensor::Stream> make_stream() override {
    const std::lock_guard lock(mutex_);
    return std::make_unique<AsyncStream>(*this, health_, pinned_, threads_, seeds_());
  }
  std::unique_ptr<tensor::Event> make_event() override { return std::make_unique<AsyncEvent>(); }
  std::unique_ptr<tensor::Event> make_timed_event() override { return make_event(); }
  bool host_reads_memory() const override { return false; }
  tensor::DeviceMemory memory() const override {
    if (space_.total == 0) return {};
    return {.used = space_.used, .total = space_.total};
  }
  tensor::Ops& ops() override { return ops_; }
  std::unique_ptr<tensor::Linear> make_linear(const tensor::LinearShape& shape) override {
    return std::make_unique<AsyncLinear>(cpu_->make_linear(shape));
  }
  std::unique_ptr<tensor::GroupedLinear> make_grouped_linear(
      const tensor::GroupedLinearShape& shape) override {
    return std::make_unique<AsyncGroupedLinear>(cpu_->make_grouped_linear(shape));
  }
  std::unique_ptr<tensor::Attention> make_attention(const tensor::AttentionShape& shape) override {
    return std::make_unique<AsyncAttention>(cpu_->make_attention(shape));
  }
  std::unique_ptr<tensor::CachedAttention> make_cached_attention(
      const tensor::CachedAttentionShape& shape) override {
    return std::make_unique<AsyncCachedAttention>(cpu_->make_cached_attention(shape));
  }

 private:
  using Stream = tensor::Stream;
  using Tensor = tensor::Tensor;

  static AsyncStream& async(Stream& stream) { return static_cast<AsyncStream&>(stream); }

  class AsyncLinear final : public tensor::Linear {
   public:
    explicit AsyncLinear(std::unique_ptr<Linear> cpu) : cpu_(std::move(cpu)) {}
    std::size_t packed_bytes() const override { return cpu_->packed_bytes(); }
    tensor::ScratchBytes scratch_bytes() const override { return cpu_->scratch_bytes(); }
    void set_scratch(const tensor::Scratch& scratch) override {
      cpu_->set_scratch({opened(scratch.forward), opened(scratch.backward)});
      forward_ = {scratch.forward, scratch_bytes().forward};
      backward_ = {scratch.backward, scratch_bytes().backward};
    }
    void pack(Stream& stream, const Tensor& w, void* packed) override {
      async(stream).submit({w}, {of(packed)}, *cpu_, &Linear::pack, w, packed);
    }
    Tensor packed_copy(void* packed) const override { return cpu_->packed_copy(packed); }
    void forward(Stream& stream, const Tensor& x, const void* packed, const Tensor& y,
                 const Tensor& residual) override {
      async(stream).submit({x, of(packed), residual}, {y, forward_}, *cpu_, &Linear::forward, x,
                           packed, y, residual);
    }
    void input_gradient(Stream& stream, const Tensor& dy, const void* packed,
                        const Tensor& dx) override {
      async(stream).submit({dy, of(packed)}, {dx, backward_}, *cpu_, &Linear::input_gradient, dy,
                           packed, dx);
    }
    void weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& dw,
                         tensor::Gradient gradient) override {
      async(stream).submit({dy, x}, {dw, backward_}, *cpu_, &Linear::weight_gradient, dy, x, dw,
                           gradient);
    }

   private:
    Piece of(const void* packed) const { return {packed, packed_bytes()}; }

    const std::unique_ptr<Linear> cpu_;
    Piece forward_{nullptr, 0}, backward_{nullptr, 0};
  };

  class AsyncGroupedLinear final : public tensor::GroupedLinear {
   public:
    explicit AsyncGroupedLinear(std::unique_ptr<GroupedLinear> cpu) : cpu_(std::move(cpu)) {}
    std::size_t packed_bytes() const override { return cpu_->packed_bytes(); }
    tensor::ScratchBytes scratch_bytes() const override { return cpu_->scratch_bytes(); }
    void set_scratch(const tensor::Scratch& scratch) override {
      cpu_->set_scratch({opened(scratch.forward), opened(scratch.backward)});
      forward_ = {scratch.forward, scratch_bytes().forward};
      backward_ = {scratch.backward, scratch_bytes().backward};
    }
    void pack(Stream& stream, const Tensor& w, void* packed) override {
      async(stream).submit({w}, {of(packed)}, *cpu_, &GroupedLinear::pack, w, packed);
    }
    Tensor packed_copy(void* packed) const override { return cpu_->packed_copy(packed); }
    void forward(Stream& stream, const Tensor& x, const Tensor& offsets, const void* packed,
                 const Tensor& y) override {
      async(stream).submit({x, offsets, of(packed)}, {y, forward_}, *cpu_, &GroupedLinear::forward,
                           x, offsets, packed, y);
    }
    void input_gradient(Stream& stream, const Tensor& dy, const Tensor& offsets, const void* packed,
                        const Tensor& dx) override {
      async(stream).submit({dy, offsets, of(packed)}, {dx, backward_}, *cpu_,
                           &GroupedLinear::input_gradient, dy, offsets, packed, dx);
    }
    void weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& offsets,
                         const Tensor& dw, tensor::Gradient gradient) override {
      async(stream).submit({dy, x, offsets}, {dw, backward_}, *cpu_,
                           &GroupedLinear::weight_gradient, dy, x, offsets, dw, gradient);
    }

   private:
    Piece of(const void* packed) const { return {packed, packed_bytes()}; }

    const std::unique_ptr<GroupedLinear> cpu_;
    Piece forward_{nullptr, 0}, backward_{nullptr, 0};
  };

  class AsyncAttention final : public tensor::Attention {
   public:
    explicit AsyncAttention(std::unique_ptr<Attention> cpu) : cpu_(std::move(cpu)) {}
    std::int64_t saved_elements() const override { return cpu_->saved_elements(); }
    tensor::ScratchBytes scratch_bytes() const override { return cpu_->scratch_bytes(); }
    void set_scratch(const tensor::Scratch& scratch) override {
      cpu_->set_scratch({opened(scratch.forward), opened(scratch.backward)});
      backward_ = {scratch.backward, scratch_bytes().backward};
    }
    void forward(Stream& stream, const Tensor& qkv, const Tensor& saved, const Tensor& lse,
                 const Tensor& out, const tensor::AttentionCall& call) override {
      async(stream).submit({qkv, call.mask, call.documents}, {saved, lse, out}, *cpu_,
                           &Attention::forward, qkv, saved, lse, out, call);
    }
    void recompute(Stream& stream, const Tensor& saved, const Tensor& lse, const Tensor& out,
                   const tensor::AttentionCall& call) override {
      async(stream).submit({saved, call.mask, call.documents}, {lse, out}, *cpu_,
                           &Attention::recompute, saved, lse, out, call);
    }
    void backward(Stream& stream, const Tensor& saved, const Tensor& lse, const Tensor& out,
                  const Tensor& dout, const Tensor& dqkv,
                  const tensor::AttentionCall& call) override {
      async(stream).submit({saved, lse, out, dout, call.mask, call.documents}, {dqkv, backward_},
                           *cpu_, &Attention::backward, saved, lse, out, dout, dqkv, call);
    }

   private:
    const std::unique_ptr<Attention> cpu_;
    Piece backward_{nullptr, 0};
  };

  class AsyncCachedAttention final : public tensor::CachedAttention {
   public:
    explicit AsyncCachedAttention(std::unique_ptr<CachedAttention> cpu) : cpu_(std::move(cpu)) {}
    std::int64_t cache_elements() const override { return cpu_->cache_elements(); }
    std::size_t scratch_bytes() const override { return cpu_->scratch_bytes(); }
    void set_scratch(void* scratch) override {
      cpu_->set_scratch(opened(scratch));
      scratch_ = {scratch, scratch_bytes()};
    }
    void forward(Stream& stream, const Tensor& qkv, const tensor::CachedTokens& tokens,
                 const Tensor& cache, const Tensor& out) override {
      async(stream).submit({qkv, tokens.sequences, tokens.positions, tokens.cos, tokens.sin},
                           {cache, out, scratch_}, *cpu_, &CachedAttention::forward, qkv, tokens,
                           cache, out);
    }

   private:
    const std::unique_ptr<CachedAttention> cpu_;
    Piece scratch_{nullptr, 0};
  };

  const int threads_;
  AsyncHealth health_;
  PinnedMemory pinned_;
  std::mutex mutex_;  // guards seeds_
  std::mt19937_64 seeds_;
  GuardedSpace space_;
  const std::unique_ptr<tensor::Device> cpu_;
  AsyncOps ops_;
};

}  // namespace troupe::test
