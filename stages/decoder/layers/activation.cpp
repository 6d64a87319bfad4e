#include "stages/decoder/layers/activation.h"

namespace troupe::stages {
namespace {

using tensor::Tensor;

/// silu(gate) * up (arXiv 2002.05202); x holds the columns of gate, then those of up.
class SwiGlu final : public Activation {
 public:
  explicit SwiGlu(tensor::Ops& ops) : ops_(ops) {}
  void forward(tensor::Stream& stream, const Tensor& x, const Tensor& y) const override {
    ops_.swiglu(stream, x, y);
  }
  void backward(tensor::Stream& stream, const Tensor& x, const Tensor& dy,
                const Tensor& dx) const override {
    ops_.swiglu_backward(stream, x, dy, dx);
  }

 private:
  tensor::Ops& ops_;
};

/// The tanh form of GELU (arXiv 1606.08415), GPT-2's.
class Gelu final : public Activation {
 public:
  explicit Gelu(tensor::Ops& ops) : ops_(ops) {}
  void forward(tensor::Stream& stream, const Tensor& x, const Tensor& y) const override {
    ops_.gelu(stream, x, y);
  }
  void backward(tensor::Stream& stream, const Tensor& x, const Tensor& dy,
                const Tensor& dx) const override {
    ops_.gelu_backward(stream, x, dy, dx);
  }

 private:
  tensor::Ops& ops_;
};

}  // namespace

std::unique_ptr<Activation> make_activation(const LayerSpec& spec, tensor::Device& device) {
  if (traits_of(spec.model.kind).is_gated) return std::make_unique<SwiGlu>(device.ops());
  return std::make_unique<Gelu>(device.ops());
}

}  // namespace troupe::stages
