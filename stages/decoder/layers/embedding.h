#pragma once

#include <memory>
#include <span>

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/layer_dropout.h"
#include "stages/decoder/layers/layer_shape.h"
#include "stages/decoder/layers/streams.h"
#include "tensor/device/linear.h"
#include "tensor/device/ops.h"
#include "tensor/parallel/vocab_parallel_embedding.h"

namespace troupe::stages {

/// What the embedding keeps for a microbatch.
struct EmbeddingActivations {
  tensor::Tensor ids;  // [T] int32
  /// Each token's place in its document, for learned positions. Empty where a sample is a row.
  tensor::Tensor positions;  // [T] int32
  tensor::Tensor dropped;    // BlockScratch::dropped
  HiddenDropout dropout;     // of the microbatch; evaluations drop nothing
};

/// The embedding's parameters or their gradients, float32.
struct EmbeddingParameters {
  tensor::Tensor table;      // [V, C]
  tensor::Tensor positions;  // [max_position_embeddings, C]  empty: the kind has none
};

/// Embedding of a token: row `id` of the table, scaled if the kind scales it, and, if the kind has
/// learned positions, the row of the token's place in its sample, and the dropout of their sum.
/// Each shard has rows of the table and all positions; with sequence parallelism the gradient of
/// positions is a part of a sum over the shards.
class Embedding {
 public:
  /// Device, streams and groups outlive the layer, as they do for every layer.
  Embedding(const LayerSpec& spec, tensor::Device& device, const Streams& streams);

  EmbeddingActivations lay_out_activations(Arena& arena) const;
  /// Lets what is laid out be of a microbatch of `tokens` tokens.
  void use_tokens(std::int64_t tokens, EmbeddingActivations& kept) const;

  /// ids: T tokens in pinned memory, valid until the call has run; so are `positions`, which only a
  /// microbatch of documents has. x: [S, C] act; of several shards a
  /// part of a sum, which with sequence parallelism gathered.output has, for all tokens.
  void forward(std::span<const std::int32_t> ids, std::span<const std::int32_t> positions,
               const EmbeddingParameters& weights, const EmbeddingActivations& kept,
               const GatheredTokens& gathered, const tensor::Tensor& x) const;
  /// Sums x over the shards. Null if there is one shard.
  std::unique_ptr<tensor::Work> reduce_output(const GatheredTokens& gathered,
                                              const tensor::Tensor& x) const;
  /// Scales the sum of several shards, adds the positions, and drops.
  void finish_output(const EmbeddingParameters& weights, const EmbeddingActivations& kept,
                     const tensor::Tensor& x) const;
  /// With sequence parallelism fills gathered.output from dx [S, C]; else null.
  std::unique_ptr<tensor::Work> gather_gradient(const tensor::Tensor& dx,
                                                const EmbeddingActivations& kept,
                                                const GatheredTokens& gathered) const;
  /// Puts the microbatch's gradients into `gradients`, the sums of the step.
  void weight_gradient(const tensor::Tensor& dx, const EmbeddingActivations& kept,
                       const GatheredTokens& gathered, const EmbeddingParameters& gradients,
                       tensor::Gradient which) const;

 private:
  /// The rows of a table of positions that samples use.
  tensor::Tensor used(const tensor::Tensor& positions) const;
  /// The shard's own tokens of a microbatch's.
  tensor::Tensor own(const tensor::Tensor& tokens) const;
  const tensor::Tensor& before_dropout(const tensor::Tensor& dx,
                                       const EmbeddingActivations& kept) const;
  /// The gradient of the rows of the table from before_dropout().
  const tensor::Tensor& before_scale(const tensor::Tensor& dx,
                                     const EmbeddingActivations& kept) const;

  LayerShape shape_;
  std::int64_t seq_len_;
  std::int64_t shard_;        ///< of those that the tokens are divided among
  std::int64_t first_token_;  ///< of the shard's, among those of a microbatch of T
  bool is_divided_;           ///< among several shards
  float scale_;               ///< of the rows of the table
  bool places_tokens_;        ///< whether the places of tokens in their documents are looked up
  tensor::Ops& ops_;
  const Streams& streams_;
  std::unique_ptr<tensor::VocabParallelEmbedding> table_;
};

/// A view of T tokens in host memory, for reading.
tensor::Tensor host_tokens(std::span<const std::int32_t> tokens);

}  // namespace troupe::stages
