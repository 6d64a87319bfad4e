#pragma once

#include <memory>

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/layer_shape.h"
#include "tensor/linear.h"
#include "tensor/ops.h"

namespace troupe::stages {

/// The parameters of a norm, or their gradients, in float32.
struct NormParameters {
  tensor::Tensor weight;  // [C]
  tensor::Tensor bias;    // [C]  of a LayerNorm
};

/// What a norm's forward keeps for its backward.
struct NormStatistics {
  tensor::Tensor mean;  // [S]  f32  of a LayerNorm
  tensor::Tensor rstd;  // [S]  f32
};
inline void use_rows(NormStatistics& statistics, std::int64_t rows) {
  use_rows(statistics.mean, rows);
  use_rows(statistics.rstd, rows);
}

/// The norm of a model's kind over the channels of each token. One object serves every norm of a
/// stage. It is the same on every shard: each norms the tokens that it has between the layers, and
/// with sequence parallelism the gradients of the parameters are parts of a sum over the shards.
class Norm {
 public:
  virtual ~Norm() = default;
  /// Memory of a forward of [S, C], and of the gradients of one microbatch.
  virtual NormStatistics lay_out_statistics(Arena& arena) const = 0;
  virtual NormParameters lay_out_gradients(Arena& arena) const = 0;
  /// y = norm(x), both [S, C] act. Fills kept.
  virtual void forward(tensor::Stream& stream, const NormParameters& weights,
                       const tensor::Tensor& x, const tensor::Tensor& y,
                       const NormStatistics& kept) const = 0;
  /// dx = residual (if given) + the gradient of x at dy; all [S, C] act. Overwrites `gradients`
  /// with those of the parameters. dx may be residual or dy itself.
  virtual void backward(tensor::Stream& stream, const NormParameters& weights,
                        const tensor::Tensor& dy, const tensor::Tensor& x,
                        const NormStatistics& kept, const tensor::Tensor& residual,
                        const tensor::Tensor& dx, const NormParameters& gradients) const = 0;
  /// Puts the gradients of one microbatch into the sum of the step.
  virtual void give_gradients(tensor::Stream& stream, const NormParameters& gradients,
                              const NormParameters& sum, tensor::Gradient which) const = 0;
};

std::unique_ptr<Norm> make_norm(const LayerSpec& spec, tensor::Device& device);

}  // namespace troupe::stages
