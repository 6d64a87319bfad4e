#pragma once

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/layer_shape.h"
#include "tensor/device/linear.h"
#include "tensor/device/ops.h"

namespace troupe::stages {

/// The parameters of a norm, or their gradients, in float32.
struct NormParameters {
  tensor::Tensor weight;  // [C]
  tensor::Tensor bias;    // [C]  of a LayerNorm
};

/// What is added to the weights of the norms of a model's kind.
float weight_offset(const ModelConfig& model);

/// What a norm's forward keeps for its backward.
struct NormStatistics {
  tensor::Tensor mean;  // [S]  f32  of a LayerNorm
  tensor::Tensor rstd;  // [S]  f32
};
inline void use_rows(NormStatistics& statistics, std::int64_t rows) {
  use_rows(statistics.mean, rows);
  use_rows(statistics.rstd, rows);
}

/// The norm of a model's kind over each row of [S, C]: RMSNorm (arXiv 1910.07467), of the weights
/// or of 1 + the weights, or LayerNorm with a bias (arXiv 1607.06450). Where a kind has no norm,
/// one without parameters passes its input on, so that what lies around it is the same. One object
/// serves every norm of its shape in a stage. Between layers it is the same on every shard: each
/// norms the tokens that it has there, and with sequence parallelism the gradients of the
/// parameters are parts of a sum over the shards.
class Norm {
 public:
  /// `is_there`: false of a norm that passes its input on.
  Norm(const ModelConfig& model, std::int64_t rows, std::int64_t channels, tensor::Device& device,
       bool is_there = true);

  /// Memory of a forward of all rows, and of the gradients of one microbatch.
  NormStatistics lay_out_statistics(Arena& arena) const;
  NormParameters lay_out_gradients(Arena& arena) const;
  /// y = norm(x), both [S, C] act. Fills kept.
  void forward(tensor::Stream& stream, const NormParameters& weights, const tensor::Tensor& x,
               const tensor::Tensor& y, const NormStatistics& kept) const;
  /// dx = residual (if given, and always of a norm that passes its input on) + the gradient of x at
  /// dy; all [S, C] act. Overwrites `gradients`
  /// with those of the parameters. dx may be residual or dy itself.
  void backward(tensor::Stream& stream, const NormParameters& weights, const tensor::Tensor& dy,
                const tensor::Tensor& x, const NormStatistics& kept, const tensor::Tensor& residual,
                const tensor::Tensor& dx, const NormParameters& gradients) const;
  /// Puts the gradients of one microbatch into the sum of the step.
  void give_gradients(tensor::Stream& stream, const NormParameters& gradients,
                      const NormParameters& sum, tensor::Gradient which) const;

 private:
  std::int64_t rows_, channels_;
  bool is_there_, is_layer_norm_;
  float eps_, plus_;
  tensor::Ops& ops_;
};

}  // namespace troupe::stages
