#pragma once

#include <cstdlib>
#include <cstring>

#include "tensor/device/attention.h"
#include "tensor/device/linear.h"
#include "tensor/device/ops.h"

namespace troupe::tensor {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
/// Ops that do nothing.
class NullOps : public Ops {
#define TROUPE_NULL_OP(name, ...) \
  void run_##name(Stream& stream, __VA_ARGS__) override {}
  TROUPE_OPS(TROUPE_NULL_OP)
#undef TROUPE_NULL_OP
};
#pragma GCC diagnostic pop

}  // namespace troupe::tensor

namespace troupe::test {

/// A device whose ops do nothing but copy and write over their scratch memory, and which counts the
/// bytes it hands out: what a test measures with it is the caller's own work and memory.
class NullDevice : public tensor::Device {
 public:
  /// Bytes of all allocate() calls so far.
  std::size_t allocated() const { return allocated_; }

  tensor::Buffer allocate(std::size_t bytes, tensor::MemoryKind kind) override {
    allocated_ += bytes;
    void* data = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
    std::memset(data, 0, bytes);
    return {data, bytes, kind, [](void* memory, std::size_t) { std::free(memory); }};
  }
  std::unique_ptr<tensor::Stream> make_stream() override {
    return std::make_unique<NullStream>(*this);
  }
  std::unique_ptr<tensor::Event> make_event() override { return std::make_unique<NullEvent>(); }
  std::unique_ptr<tensor::Event> make_timed_event() override { return make_event(); }
  bool host_reads_memory() const override { return true; }
  tensor::Ops& ops() override { return ops_; }
  std::unique_ptr<tensor::Linear> make_linear(const tensor::LinearShape& shape) override {
    return std::make_unique<NullLinear>(shape);
  }
  std::unique_ptr<tensor::Attention> make_attention(const tensor::AttentionShape& shape) override {
    return std::make_unique<NullAttention>(shape);
  }
  /// Nothing that is tested with this device generates text.
  std::unique_ptr<tensor::CachedAttention> make_cached_attention(
      const tensor::CachedAttentionShape&) override {
    return nullptr;
  }

 private:
  using Tensor = tensor::Tensor;
  using Stream = tensor::Stream;

  struct NullStream final : Stream {
    explicit NullStream(tensor::Device& owner) : owner_(owner) {}
    tensor::Device& device() override { return owner_; }
    void synchronize() override {}
    tensor::Device& owner_;
  };

  struct NullEvent final : tensor::Event {
    void record(Stream&) override {}
    void wait(Stream&) override {}
    void synchronize() override {}
    bool done() const override { return true; }
    void on_reached(void (*call)(void*), void* argument) override { call(argument); }
    double reached_s() const override { return 0; }
  };

  /// The scratch memory that a layer was given, of the same size for forwards and gradients.
  class NullScratch {
   public:
    explicit NullScratch(std::size_t bytes) : bytes_(bytes) {}
    tensor::ScratchBytes bytes() const { return {.forward = bytes_, .backward = bytes_}; }
    void set(const tensor::Scratch& scratch) { scratch_ = scratch; }
    void use_forward() { std::memset(scratch_.forward, 0xff, bytes_); }
    void use_backward() { std::memset(scratch_.backward, 0xff, bytes_); }

   private:
    std::size_t bytes_;
    tensor::Scratch scratch_;
  };

  struct NullLinear final : tensor::Linear {
    explicit NullLinear(const tensor::LinearShape& shape)
        : bytes_(static_cast<std::size_t>(shape.in * shape.out) * 2 * size_of(shape.dtype) + 4),
          scratch_(static_cast<std::size_t>(shape.rows * shape.out) * sizeof(float) + 4) {}
    std::size_t packed_bytes() const override { return bytes_; }
    tensor::ScratchBytes scratch_bytes() const override { return scratch_.bytes(); }
    void set_scratch(const tensor::Scratch& scratch) override { scratch_.set(scratch); }
    void pack(Stream&, const Tensor&, void*) override {}
    Tensor packed_copy(void*) const override { return {}; }
    void forward(Stream&, const Tensor&, const void*, const Tensor&, const Tensor&) override {
      scratch_.use_forward();
    }
    void input_gradient(Stream&, const Tensor&, const void*, const Tensor&) override {
      scratch_.use_backward();
    }
    void weight_gradient(Stream&, const Tensor&, const Tensor&, const Tensor&,
                         tensor::Gradient) override {
      scratch_.use_backward();
    }
    std::size_t bytes_;
    NullScratch scratch_;
  };

  struct NullAttention final : tensor::Attention {
    explicit NullAttention(const tensor::AttentionShape& shape)
        : elements_(shape.batch * shape.seq_len * (shape.heads + 2 * shape.kv_heads) *
                        shape.head_dim +
                    3),
          scratch_(static_cast<std::size_t>(elements_)) {}
    std::int64_t saved_elements() const override { return elements_; }
    tensor::ScratchBytes scratch_bytes() const override { return scratch_.bytes(); }
    void set_scratch(const tensor::Scratch& scratch) override { scratch_.set(scratch); }
    void forward(Stream&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                 const tensor::AttentionCall&) override {
      scratch_.use_forward();
    }
    void recompute(Stream&, const Tensor&, const Tensor&, const Tensor&,
                   const tensor::AttentionCall&) override {
      scratch_.use_forward();
    }
    void backward(Stream&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                  const Tensor&, const tensor::AttentionCall&) override {
      scratch_.use_backward();
    }
    std::int64_t elements_;
    NullScratch scratch_;
  };

  struct CopyOps final : tensor::NullOps {
    /// Ids and targets are checked where they were copied to.
    void run_copy(Stream&, const Tensor& src, const Tensor& dst) override {
      if (src.dtype == dst.dtype) std::memcpy(dst.data, src.data, src.num_bytes());
    }
  };

  CopyOps ops_;
  std::size_t allocated_ = 0;
};

}  // namespace troupe::test
