#pragma once

#include <memory>
#include <vector>

#include "stages/decoder/layers/head_norms.h"
#include "stages/decoder/layers/sublayer_products.h"
#include "tensor/device/attention.h"
#include "tensor/device/one_shot_norm.h"

namespace troupe::stages {

/// What an inference stage is made for: layers as LayerSpec says, for passes of `layer.seq_len`
/// rows or of the fewer `few_rows`, over caches of so many sequences of `capacity` tokens.
struct InferenceLayers {
  LayerSpec layer;
  std::int64_t few_rows = 0;
  std::int64_t sequences = 0;
  std::int64_t capacity = 0;
  /// Sums few rows over the shards, where it serves them; null: their group sums all.
  tensor::OneShotNorm* one_shot = nullptr;
};

/// What the products of the passes of inference have alike: all but their sizes.
tensor::LinearShape inference_shape(const InferenceLayers& spec);

/// The activations of one sublayer, T rows, which every layer overwrites.
struct CachedSublayer {
  tensor::Tensor inner;   // [T, I]  act  queries, keys, values; what the activation reads
  tensor::Tensor hidden;  // [T, O]  act  what the last product reads
};
struct CachedActivations {
  tensor::Tensor norm;  // [T, C]   act
  NormStatistics statistics;
  tensor::Tensor mid;  // [T, C]   act  x + attention
  /// Sums of squares of queries and keys, which the shards add up; empty unless they do.
  tensor::Tensor head_squares;  // [2 T]  f32
  BranchPair<CachedSublayer> sublayers;
  /// What layers with experts have in place of sublayers.feed_forward.
  RoutedActivations routed;
  RoutedScratch routed_scratch;
};

/// The decoder layer that DecoderBlock describes as inference computes it: forward, without
/// dropout, each row a new token that sees the tokens of its sequence in a cache. One object serves
/// every layer of a stage.
class CachedBlock {
 public:
  CachedBlock(const InferenceLayers& spec, tensor::Device& device);

  const BlockProducts& products() const { return products_; }
  CachedActivations lay_out_activations(Arena& arena) const;
  std::size_t attention_scratch_bytes() const;
  /// Scratch memory of the products, which may be shared, and of attention.
  void set_scratch(void* products, void* attention) const;
  /// Elements of one layer's cache.
  std::int64_t cache_elements() const;

  /// Number of different attentions, of which SublayerWeights::attention is one.
  std::size_t num_attentions() const { return attentions_.size(); }
  /// Views of the first rows of activations.
  CachedActivations first_rows(const CachedActivations& memory, std::int64_t count) const;
  /// Before the first layer of a pass: makes memory.norm what the layer reads of x [T, C], the
  /// residual stream.
  void begin(tensor::Stream& stream, const BlockWeights& first, const CachedActivations& memory,
             const tensor::Tensor& x) const;
  /// The residual stream of the rows of `tokens`, x [T, C], becomes the layer's output, and
  /// memory.norm what the next layer, whose attention has the norm `next`, reads of it. `tokens`
  /// are those of the layer's attention. Null: there is no next one in the stage. Between layers a
  /// shard may have its own tokens of x alone.
  void forward(tensor::Stream& stream, const BlockWeights& weights, const NormParameters* next,
               const tensor::CachedTokens& tokens, const tensor::Tensor& cache,
               const CachedActivations& memory, const tensor::Tensor& x) const;

 private:
  /// A sublayer from x to y, and the norm after it, but for what is between its products, which
  /// `core` computes.
  template <typename Core>
  void run(tensor::Stream& stream, Branch branch, const BlockWeights& weights,
           const NormParameters* next, const CachedActivations& memory, const tensor::Tensor& x,
           const tensor::Tensor& y, const Core& core) const;
  /// The first product, and the last one: of the layer's experts if it has some. The last adds the
  /// residual, if it is given, which one shard alone does.
  void first_product(tensor::Stream& stream, Branch branch, const BlockWeights& weights,
                     const CachedActivations& memory) const;
  void last_product(tensor::Stream& stream, Branch branch, const BlockWeights& weights,
                    const CachedActivations& memory, const tensor::Tensor& y,
                    const tensor::Tensor& residual = {}) const;
  /// Norms queries and keys in place, if the model does.
  void norm_heads(tensor::Stream& stream, const SublayerParameters& weights,
                  const CachedActivations& memory, const CachedSublayer& own) const;
  /// The last product, and what the form of the sublayer puts between it and y, where that is not
  /// the residual sum alone.
  void add_branch(tensor::Stream& stream, Branch branch, const BlockWeights& weights,
                  const CachedActivations& memory, const tensor::Tensor& x,
                  const tensor::Tensor& y) const;
  /// Whether one kernel sums so many rows over the shards.
  bool sums_at_once(std::int64_t rows) const;
  void sum_at_once(tensor::Stream& stream, const tensor::Tensor& bias, const NormParameters* next,
                   const CachedActivations& memory, const tensor::Tensor& x,
                   const tensor::Tensor& y) const;
  /// Whether shards divide the tokens of so many rows among themselves between the products.
  bool divides(std::int64_t rows) const;
  void sum_over_shards(tensor::Stream& stream, const tensor::Tensor& bias,
                       const NormParameters* next, const CachedActivations& memory,
                       const tensor::Tensor& x, const tensor::Tensor& y) const;

  const tensor::TensorParallel parallel_;
  tensor::OneShotNorm* const one_shot_;
  const float eps_, plus_;
  LayerShape shape_;
  const KindTraits& traits_;
  tensor::Ops& ops_;
  HeadNorms head_norms_;
  std::vector<std::unique_ptr<tensor::CachedAttention>> attentions_;  ///< of attentions_of()
  BlockProducts products_;
};

}  // namespace troupe::stages
