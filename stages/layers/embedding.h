#pragma once

#include <memory>
#include <span>

#include "stages/arena.h"
#include "stages/layers/layer_shape.h"
#include "stages/streams.h"
#include "tensor/linear.h"
#include "tensor/ops.h"
#include "tensor/parallel/vocab_parallel_embedding.h"

namespace troupe::stages {

/// What the embedding keeps for a microbatch.
struct EmbeddingActivations {
  tensor::Tensor ids;  // [T] int32
};

/// Token embedding: row id of a float32 table [V, C] for each token.
class Embedding {
 public:
  /// Device, streams and groups outlive the layer, as they do for every layer.
  Embedding(const LayerSpec& spec, tensor::Device& device, const Streams& streams);

  EmbeddingActivations lay_out_activations(Arena& kept) const;

  /// ids: T tokens in host memory, needed during the call only. x: [S, C] act, a part of a sum over
  /// the shards; with sequence parallelism gathered.output has it, for all tokens.
  void forward(std::span<const std::int32_t> ids, const tensor::Tensor& table,
               const EmbeddingActivations& kept, const GatheredTokens& gathered,
               const tensor::Tensor& x) const;
  /// Completes x. Null if there is one shard.
  std::unique_ptr<tensor::Work> reduce_output(const GatheredTokens& gathered,
                                              const tensor::Tensor& x) const;
  /// With sequence parallelism fills gathered.output from dx [S, C]; else null.
  std::unique_ptr<tensor::Work> gather_gradient(const tensor::Tensor& dx,
                                                const GatheredTokens& gathered) const;
  /// Adds the microbatch's gradient to table_gradient [V, C].
  void weight_gradient(const tensor::Tensor& dx, const EmbeddingActivations& kept,
                       const GatheredTokens& gathered, const tensor::Tensor& table_gradient,
                       tensor::Gradient which) const;

 private:
  LayerShape shape_;
  tensor::Ops& ops_;
  const Streams& streams_;
  std::unique_ptr<tensor::VocabParallelEmbedding> table_;
};

/// A view of T tokens in host memory, for reading.
tensor::Tensor host_tokens(std::span<const std::int32_t> tokens);

}  // namespace troupe::stages
