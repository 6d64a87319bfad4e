#include "stages/decoder/layers/norm.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

float weight_offset(const ModelConfig& model) {
  return traits_of(model.kind).norm_form == NormForm::one_plus ? 1 : 0;
}

Norm::Norm(const ModelConfig& model, std::int64_t rows, std::int64_t channels,
           tensor::Device& device, bool is_there)
    : rows_(rows),
      channels_(channels),
      is_there_(is_there),
      is_layer_norm_(traits_of(model.kind).has_layer_norm),
      eps_(static_cast<float>(is_layer_norm_ ? model.layer_norm_epsilon : model.rms_norm_eps)),
      plus_(weight_offset(model)),
      ops_(device.ops()) {}

NormStatistics Norm::lay_out_statistics(Arena& arena) const {
  if (!is_there_) return {};
  const auto take = [&] { return arena.take(DType::f32, {rows_}); };
  return {.mean = is_layer_norm_ ? take() : Tensor{}, .rstd = take()};
}

NormParameters Norm::lay_out_gradients(Arena& arena) const {
  if (!is_there_) return {};
  const auto take = [&] { return arena.take(DType::f32, {channels_}); };
  return {.weight = take(), .bias = is_layer_norm_ ? take() : Tensor{}};
}

void Norm::forward(tensor::Stream& stream, const NormParameters& weights, const Tensor& x,
                   const Tensor& y, const NormStatistics& kept) const {
  if (!is_there_)
    ops_.copy(stream, x, y);
  else if (is_layer_norm_)
    ops_.layer_norm(stream, x, weights.weight, weights.bias, eps_, y, kept.mean, kept.rstd);
  else
    ops_.rms_norm(stream, x, weights.weight, eps_, plus_, y, kept.rstd);
}

void Norm::backward(tensor::Stream& stream, const NormParameters& weights, const Tensor& dy,
                    const Tensor& x, const NormStatistics& kept, const Tensor& residual,
                    const Tensor& dx, const NormParameters& gradients) const {
  if (!is_there_)
    ops_.add_scaled(stream, dy, 1, residual, dx);
  else if (is_layer_norm_)
    ops_.layer_norm_backward(stream, dy, x, weights.weight, kept.mean, kept.rstd, residual, dx,
                             gradients.weight, gradients.bias);
  else
    ops_.rms_norm_backward(stream, dy, x, weights.weight, plus_, kept.rstd, residual, dx,
                           gradients.weight);
}

void Norm::give_gradients(tensor::Stream& stream, const NormParameters& gradients,
                          const NormParameters& sum, tensor::Gradient which) const {
  if (!is_there_) return;
  const auto give = [&](const Tensor& x, const Tensor& to) {
    which == tensor::Gradient::first ? ops_.copy(stream, x, to) : ops_.accumulate(stream, x, to);
  };
  give(gradients.weight, sum.weight);
  if (is_layer_norm_) give(gradients.bias, sum.bias);
}

}  // namespace troupe::stages
