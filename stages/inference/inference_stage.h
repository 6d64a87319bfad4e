#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stages/decoder/parameters/parameters.h"
#include "stages/inference/cached_block.h"
#include "stages/inference/token_rows.h"

namespace troupe::stages {

struct InferenceSpec {
  ModelConfig model;
  ChunkSpec chunk;               ///< its layers; slots are of no meaning
  Sharding sharding;             ///< without sequence parallelism
  std::int64_t prompt_rows = 0;  ///< of a pass over prompts
  std::int64_t sequences = 0;    ///< rows of any other pass, and sequences of the cache
  std::int64_t capacity = 0;     ///< tokens of each sequence that the cache has room for
  /// Sums few rows over the shards; null: their group sums all. Outlives the stage.
  tensor::OneShotNorm* one_shot = nullptr;
};

/// The layers of one shard of one pipeline stage for inference: weights, packed once, a cache of
/// keys and values, and a forward walk over the layers. It shares the layers with the stage that
/// trains (stage.h) and nothing of a step. All calls but pack() only queue ops on the stream that
/// they are given, always the same; nothing is allocated after construction.
class InferenceStage {
 public:
  /// `groups`, of the shards of `sharding`, and the device outlive the stage.
  InferenceStage(const InferenceSpec& spec, tensor::Device& device,
                 const tensor::TensorParallelGroups& groups);

  /// In canonical order; zero until they are written.
  std::span<const Parameter> parameters() const { return parameters_.all(); }
  /// Called after the weights were written, and before the first pass.
  void pack(tensor::Stream& stream) const;
  /// x [rows, C] (act), rows being prompt_rows or sequences: the residual stream, which the stage
  /// with the embedding writes, and every other one goes on with.
  void forward(tensor::Stream& stream, const TokenRows& rows, const tensor::Tensor& x) const;
  /// logits [sequences, V/n] (float32), the shard's columns, from what the last layer left of as
  /// many rows, x [sequences, C]. Only of the stage with the head; overwrites x.
  void head(tensor::Stream& stream, const tensor::Tensor& x, const tensor::Tensor& logits) const;

 private:
  struct Head {
    std::optional<Norm> norm;
    std::unique_ptr<tensor::ColumnParallelLinear> projection;
    HeadWeights weights;
  };

  void lay_out_packed(Arena& arena);
  void lay_out_activations(Arena& arena);
  void set_scratch(Arena& arena);
  /// Copies the rows to the device.
  RowTensors bring(tensor::Stream& stream, const TokenRows& rows) const;
  void embed(tensor::Stream& stream, const RowTensors& rows, const tensor::Tensor& x) const;
  tensor::Tensor cache_of(std::size_t layer) const;
  /// The rows as the attention of a layer reads them.
  tensor::CachedTokens tokens_of(const RowTensors& rows, std::size_t attention) const;

  const InferenceSpec spec_;
  tensor::Ops& ops_;
  const InferenceLayers layers_;
  const Parameters parameters_;
  const CachedBlock block_;
  std::vector<BlockWeights> blocks_;
  std::vector<int> rotations_;  ///< by attentions_of(): rotation_of()
  std::unique_ptr<tensor::VocabParallelEmbedding> embedding_;
  EmbeddingParameters embedding_weights_;
  Head head_;
  CachedActivations activations_;
  RowTensors rows_;  // in memory of the device
  tensor::Buffer packed_memory_, activation_memory_, cache_memory_;
};

}  // namespace troupe::stages
