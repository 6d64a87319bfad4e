#pragma once

#include <memory>

#include "stages/decoder/layers/layer_shape.h"
#include "tensor/ops.h"

namespace troupe::stages {

/// The function of a model's kind between the two products of a feed-forward layer. One object
/// serves every layer of a stage.
class Activation {
 public:
  virtual ~Activation() = default;
  /// y[T, F] from x[T, H], both act; see LayerShape.
  virtual void forward(tensor::Stream& stream, const tensor::Tensor& x,
                       const tensor::Tensor& y) const = 0;
  /// dx[T, H] from x and dy[T, F]; dx may be x itself.
  virtual void backward(tensor::Stream& stream, const tensor::Tensor& x, const tensor::Tensor& dy,
                        const tensor::Tensor& dx) const = 0;
};

std::unique_ptr<Activation> make_activation(const LayerSpec& spec, tensor::Device& device);

}  // namespace troupe::stages
