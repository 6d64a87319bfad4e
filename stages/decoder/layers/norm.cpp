#include "stages/decoder/layers/norm.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

Norm::Norm(const ModelConfig& model, std::int64_t rows, std::int64_t channels,
           tensor::Device& device)
    : rows_(rows),
      channels_(channels),
      is_layer_norm_(traits_of(model.kind).has_layer_norm),
      eps_(static_cast<float>(is_layer_norm_ ? model.layer_norm_epsilon : model.rms_norm_eps)),
      ops_(device.ops()) {}

NormStatistics Norm::lay_out_statistics(Arena& arena) const {
  const auto take = [&] { return arena.take(DType::f32, {rows_}); };
  return {.mean = is_layer_norm_ ? take() : Tensor{}, .rstd = take()};
}

NormParameters Norm::lay_out_gradients(Arena& arena) const {
  const auto take = [&] { return arena.take(DType::f32, {channels_}); };
  return {.weight = take(), .bias = is_layer_norm_ ? take() : Tensor{}};
}

void Norm::forward(tensor::Stream& stream, const NormParameters& weights, const Tensor& x,
                   const Tensor& y, const NormStatistics& kept) const {
  if (is_layer_norm_)
    ops_.layer_norm(stream, x, weights.weight, weights.bias, eps_, y, kept.mean, kept.rstd);
  else
    ops_.rms_norm(stream, x, weights.weight, eps_, y, kept.rstd);
}

void Norm::backward(tensor::Stream& stream, const NormParameters& weights, const Tensor& dy,
                    const Tensor& x, const NormStatistics& kept, const Tensor& residual,
                    const Tensor& dx, const NormParameters& gradients) const {
  if (is_layer_norm_)
    ops_.layer_norm_backward(stream, dy, x, weights.weight, kept.mean, kept.rstd, residual, dx,
                             gradients.weight, gradients.bias);
  else
    ops_.rms_norm_backward(stream, dy, x, weights.weight, kept.rstd, residual, dx,
                           gradients.weight);
}

void Norm::give_gradients(tensor::Stream& stream, const NormParameters& gradients,
                          const NormParameters& sum, tensor::Gradient which) const {
  const auto give = [&](const Tensor& x, const Tensor& to) {
    which == tensor::Gradient::first ? ops_.copy(stream, x, to) : ops_.accumulate(stream, x, to);
  };
  give(gradients.weight, sum.weight);
  if (is_layer_norm_) give(gradients.bias, sum.bias);
}

}  // namespace troupe::stages
