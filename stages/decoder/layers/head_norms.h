#pragma once

#include "stages/decoder/layers/layer_shape.h"
#include "stages/decoder/layers/sublayer_form.h"
#include "tensor/device/ops.h"

namespace troupe::stages {

/// The norms of queries and keys between a product and attention, as a shard has them: of each head
/// by itself, or of all heads of a token together, those of other shards among them.
class HeadNorms {
 public:
  HeadNorms(const LayerSpec& spec, tensor::Device& device);

  bool are_there() const { return form_.head_norm != HeadNorm::none; }
  bool sums_heads() const { return form_.sums_heads; }
  /// Elements of their weights.
  std::int64_t query_size() const { return weight_size(queries_); }
  std::int64_t key_size() const { return weight_size(keys_); }

  /// Tensors of both norms: of `squares` and `dots`, [2 T] float32, those of queries come first.
  /// Fills this shard's parts of the sums of squares, if sums_heads().
  void sum_squares(tensor::Stream& stream, const tensor::Tensor& raw,
                   const tensor::Tensor& squares) const;
  /// inner [T, Q] from raw [T, Q]: normed queries and keys, and the values as they are.
  void forward(tensor::Stream& stream, const tensor::Tensor& query_weight,
               const tensor::Tensor& key_weight, const tensor::Tensor& raw,
               const tensor::Tensor& squares, const tensor::Tensor& inner) const;

  struct Backward {
    const tensor::Tensor& raw;
    const tensor::Tensor& squares;
    const tensor::Tensor& query_weight;
    const tensor::Tensor& key_weight;
    const tensor::Tensor& dots;
    const tensor::Tensor& dinner;  ///< becomes the gradient of raw
  };
  /// Fills this shard's parts of `dots`, if sums_heads().
  void sum_dots(tensor::Stream& stream, const Backward& call) const;
  /// Overwrites the gradients of both weights.
  void backward(tensor::Stream& stream, const Backward& call, const tensor::Tensor& dquery_weight,
                const tensor::Tensor& dkey_weight) const;

 private:
  std::int64_t weight_size(const tensor::HeadColumns& columns) const { return columns.dim; }
  /// The columns of all shards, those of heads that several have as often.
  std::int64_t width(const tensor::HeadColumns& columns) const;

  LayerShape shape_;
  SublayerForm form_;
  int shards_;
  tensor::HeadColumns queries_, keys_;
  float eps_, plus_;
  tensor::Ops& ops_;
};

}  // namespace troupe::stages
