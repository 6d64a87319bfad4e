#pragma once

#include <memory>
#include <vector>

#include "tensor/device/attention.h"
#include "tensor/device/linear.h"
#include "tensor/device/ops.h"

namespace troupe::test {

/// The CPU with products whose packed weight is a copy of the weight, as on a GPU. Computes the
/// same bits as the CPU, and counts the calls of pack().
class PlainLinearDevice final : public tensor::Device {
 public:
  int packs() const { return packs_; }

  tensor::Buffer allocate(std::size_t bytes, tensor::MemoryKind kind) override {
    return cpu_->allocate(bytes, kind);
  }
  std::unique_ptr<tensor::Stream> make_stream() override { return cpu_->make_stream(); }
  std::unique_ptr<tensor::Event> make_event() override { return cpu_->make_event(); }
  std::unique_ptr<tensor::Event> make_timed_event() override { return cpu_->make_timed_event(); }
  bool host_reads_memory() const override { return true; }
  tensor::Ops& ops() override { return cpu_->ops(); }
  std::unique_ptr<tensor::Linear> make_linear(const tensor::LinearShape& shape) override {
    return std::make_unique<PlainLinear>(shape, *cpu_, packs_);
  }
  std::unique_ptr<tensor::Attention> make_attention(const tensor::AttentionShape& shape) override {
    return cpu_->make_attention(shape);
  }
  std::unique_ptr<tensor::CachedAttention> make_cached_attention(
      const tensor::CachedAttentionShape& shape) override {
    return cpu_->make_cached_attention(shape);
  }

 private:
  using Stream = tensor::Stream;
  using Tensor = tensor::Tensor;

  class PlainLinear final : public tensor::Linear {
   public:
    PlainLinear(const tensor::LinearShape& shape, tensor::Device& cpu, int& packs)
        : shape_(shape), ops_(cpu.ops()), cpu_(cpu.make_linear(shape)), packs_(packs) {}
    std::size_t packed_bytes() const override {
      return static_cast<std::size_t>(shape_.in * shape_.out) * size_of(shape_.dtype);
    }
    tensor::ScratchBytes scratch_bytes() const override { return cpu_->scratch_bytes(); }
    void set_scratch(const tensor::Scratch& scratch) override { cpu_->set_scratch(scratch); }
    void pack(Stream& stream, const Tensor& w, void* packed) override {
      ++packs_;
      ops_.copy(stream, w, packed_copy(packed));
    }
    Tensor packed_copy(void* packed) const override {
      return {packed, shape_.dtype, {shape_.out, shape_.in}};
    }
    void forward(Stream& stream, const Tensor& x, const void* packed, const Tensor& y,
                 const Tensor& residual) override {
      cpu_->forward(stream, x, cpu_packed(stream, packed), y, residual);
    }
    void input_gradient(Stream& stream, const Tensor& dy, const void* packed,
                        const Tensor& dx) override {
      cpu_->input_gradient(stream, dy, cpu_packed(stream, packed), dx);
    }
    void weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& dw,
                         tensor::Gradient gradient) override {
      cpu_->weight_gradient(stream, dy, x, dw, gradient);
    }

   private:
    /// The weight in the form of the CPU's products.
    const void* cpu_packed(Stream& stream, const void* packed) {
      wide_.resize(static_cast<std::size_t>(shape_.in * shape_.out));
      cpu_memory_.resize(cpu_->packed_bytes() / sizeof(Line) + 1);
      const Tensor wide{wide_.data(), tensor::DType::f32, {shape_.out, shape_.in}};
      ops_.copy(stream, packed_copy(const_cast<void*>(packed)), wide);
      cpu_->pack(stream, wide, cpu_memory_.data());
      return cpu_memory_.data();
    }
    struct alignas(64) Line {
      std::byte bytes[64];
    };

    const tensor::LinearShape shape_;
    tensor::Ops& ops_;
    const std::unique_ptr<tensor::Linear> cpu_;
    int& packs_;
    std::vector<float> wide_;
    std::vector<Line> cpu_memory_;
  };

  const std::unique_ptr<tensor::Device> cpu_ = tensor::make_cpu_device(1);
  int packs_ = 0;
};

}  // namespace troupe::test
