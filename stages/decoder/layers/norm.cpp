#include "stages/decoder/layers/norm.h"

#include "stages/decoder/layers/gradient.h"

namespace troupe::stages {
namespace {

using tensor::DType;
using tensor::Tensor;

/// Root mean square layer normalization (arXiv 1910.07467).
class RmsNorm final : public Norm {
 public:
  RmsNorm(const LayerSpec& spec, tensor::Device& device)
      : shape_(spec), eps_(static_cast<float>(spec.model.rms_norm_eps)), ops_(device.ops()) {}

  NormStatistics lay_out_statistics(Arena& arena) const override {
    return {.mean = {}, .rstd = arena.take(DType::f32, {shape_.S})};
  }
  NormParameters lay_out_gradients(Arena& arena) const override {
    return {.weight = arena.take(DType::f32, {shape_.C}), .bias = {}};
  }
  void forward(tensor::Stream& stream, const NormParameters& weights, const Tensor& x,
               const Tensor& y, const NormStatistics& kept) const override {
    ops_.rms_norm(stream, x, weights.weight, eps_, y, kept.rstd);
  }
  void backward(tensor::Stream& stream, const NormParameters& weights, const Tensor& dy,
                const Tensor& x, const NormStatistics& kept, const Tensor& residual,
                const Tensor& dx, const NormParameters& gradients) const override {
    ops_.rms_norm_backward(stream, dy, x, weights.weight, kept.rstd, residual, dx,
                           gradients.weight);
  }
  void give_gradients(tensor::Stream& stream, const NormParameters& gradients,
                      const NormParameters& sum, tensor::Gradient which) const override {
    give_gradient(ops_, stream, gradients.weight, sum.weight, which);
  }

 private:
  LayerShape shape_;
  float eps_;
  tensor::Ops& ops_;
};

/// Layer normalization with a bias (arXiv 1607.06450).
class LayerNorm final : public Norm {
 public:
  LayerNorm(const LayerSpec& spec, tensor::Device& device)
      : shape_(spec), eps_(static_cast<float>(spec.model.layer_norm_epsilon)), ops_(device.ops()) {}

  NormStatistics lay_out_statistics(Arena& arena) const override {
    return {.mean = arena.take(DType::f32, {shape_.S}), .rstd = arena.take(DType::f32, {shape_.S})};
  }
  NormParameters lay_out_gradients(Arena& arena) const override {
    return {.weight = arena.take(DType::f32, {shape_.C}),
            .bias = arena.take(DType::f32, {shape_.C})};
  }
  void forward(tensor::Stream& stream, const NormParameters& weights, const Tensor& x,
               const Tensor& y, const NormStatistics& kept) const override {
    ops_.layer_norm(stream, x, weights.weight, weights.bias, eps_, y, kept.mean, kept.rstd);
  }
  void backward(tensor::Stream& stream, const NormParameters& weights, const Tensor& dy,
                const Tensor& x, const NormStatistics& kept, const Tensor& residual,
                const Tensor& dx, const NormParameters& gradients) const override {
    ops_.layer_norm_backward(stream, dy, x, weights.weight, kept.mean, kept.rstd, residual, dx,
                             gradients.weight, gradients.bias);
  }
  void give_gradients(tensor::Stream& stream, const NormParameters& gradients,
                      const NormParameters& sum, tensor::Gradient which) const override {
    give_gradient(ops_, stream, gradients.weight, sum.weight, which);
    give_gradient(ops_, stream, gradients.bias, sum.bias, which);
  }

 private:
  LayerShape shape_;
  float eps_;
  tensor::Ops& ops_;
};

}  // namespace

std::unique_ptr<Norm> make_norm(const LayerSpec& spec, tensor::Device& device) {
  if (traits_of(spec.model.kind).has_layer_norm) return std::make_unique<LayerNorm>(spec, device);
  return std::make_unique<RmsNorm>(spec, device);
}

}  // namespace troupe::stages
