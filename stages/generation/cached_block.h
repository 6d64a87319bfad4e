#pragma once

#include <memory>

#include "stages/generation/shard_threads.h"
#include "stages/layers/decoder_block.h"
#include "tensor/cached_attention.h"

namespace troupe::stages {

/// What an inference stage is made for: layers as LayerSpec says, for passes of `layer.seq_len`
/// rows or of the fewer `few_rows`, over caches of so many sequences of `capacity` tokens. `shards`
/// adds what several shards compute; null if there is one.
struct InferenceLayers {
  LayerSpec layer;
  std::int64_t few_rows = 0;
  std::int64_t sequences = 0;
  std::int64_t capacity = 0;
  ShardThreads* shards = nullptr;
};

/// A linear layer of whole sizes [out, in] for the passes of inference.
tensor::LinearShape inference_shape(const InferenceLayers& spec, std::int64_t in, std::int64_t out,
                                    tensor::DType output_dtype);

/// The activations of one layer, T rows, which every layer overwrites.
struct CachedActivations {
  tensor::Tensor norm;  // [T, C]   act
  NormStatistics statistics;
  tensor::Tensor qkv;      // [T, Q]   act
  tensor::Tensor attn;     // [T, A]   act
  tensor::Tensor mid;      // [T, C]   act  x + attention
  tensor::Tensor gate_up;  // [T, H]   act
  tensor::Tensor act;      // [T, F]   act

  /// Views of the first rows.
  CachedActivations rows(std::int64_t count) const;
};

/// The decoder layer that DecoderBlock describes as inference computes it: forward, without
/// dropout, each row a new token that sees the tokens of its sequence in a cache. One object serves
/// every layer of a stage.
class CachedBlock {
 public:
  CachedBlock(const InferenceLayers& spec, tensor::Device& device);

  PackedBlock lay_out_packed(Arena& arena) const;
  CachedActivations lay_out_activations(Arena& arena) const;
  /// Scratch memory of the products, which may be shared, and of attention.
  std::size_t product_scratch_bytes() const;
  std::size_t attention_scratch_bytes() const { return attention_->scratch_bytes(); }
  void set_scratch(void* products, void* attention) const;
  /// Elements of one layer's cache.
  std::int64_t cache_elements() const { return attention_->cache_elements(); }

  void pack(tensor::Stream& stream, const BlockWeights& weights) const;
  /// x [T, C], the residual stream of the rows of `tokens`, becomes the layer's output.
  void forward(tensor::Stream& stream, const BlockWeights& weights,
               const tensor::CachedTokens& tokens, const tensor::Tensor& cache,
               const CachedActivations& memory, const tensor::Tensor& x) const;

 private:
  /// y = linear(in) + bias + residual.
  void project(tensor::Stream& stream, tensor::RowParallelLinear& linear, const tensor::Tensor& in,
               const void* packed, const tensor::Tensor& bias, const tensor::Tensor& residual,
               const tensor::Tensor& y) const;

  LayerShape shape_;
  int shard_;
  ShardThreads* shards_;
  std::unique_ptr<Norm> norm_;
  std::unique_ptr<Activation> activation_;
  std::unique_ptr<tensor::ColumnParallelLinear> qkv_, gate_up_;
  std::unique_ptr<tensor::RowParallelLinear> o_, down_;
  std::unique_ptr<tensor::CachedAttention> attention_;
};

}  // namespace troupe::stages
