#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "stages/gradient_pieces.h"
#include "stages/layers/decoder_block.h"
#include "stages/layers/embedding.h"
#include "stages/layers/head_loss.h"
#include "stages/transformer_stage.h"

namespace troupe::stages {

/// Where a stage's parameters lie in each of its storages (weights, gradients, moments): float32,
/// canonical order, on 256-byte boundaries, except that those which one product computes with (q,
/// k, v; gate, up) follow each other directly, weights and biases apart. Elements between
/// parameters are zero. Moments may be those of a slice alone; then each parameter's begins on a
/// boundary.
struct ParameterLayout {
  struct Entry {
    ParameterInfo info;
    std::int64_t offset = 0;  ///< elements
    tensor::Shape shape;      ///< of the shard's part
    tensor::Region region;    ///< Parameter::region
    bool owned = true;        ///< Parameter::owned
    bool owned_by_stage = true;
    std::vector<std::int64_t> row_cuts;  ///< Parameter::row_cuts
    /// Where the moments of a slice lie in their storages.
    struct Place {
      std::int64_t offset = 0;
      tensor::Shape shape;
    };
    Place moments, twin_moments;
  };
  std::vector<Entry> entries;
  std::int64_t size = 0;          ///< elements of one storage
  std::int64_t moments = 0;       ///< elements of each storage of moments
  std::int64_t twin_moments = 0;  ///< the same, of the slice that is kept for another replica
  /// Elements of the head's own gradient of a tied embedding in this stage.
  std::int64_t tied_size = 0;
};
ParameterLayout lay_out_parameters(const StageSpec& spec);
/// The pieces of the gradients of this layout.
std::vector<GradientPiece> pieces_of(const ParameterLayout& layout);

/// A stage's parameters with gradients and optimizer state.
class Parameters {
 public:
  Parameters(const StageSpec& spec, tensor::Device& device);

  std::span<const Parameter> all() const { return all_; }
  /// The parameters with the moments that the next update writes, which are others than those of
  /// all() if keep_previous is set.
  std::span<const Parameter> next() const { return next_; }
  void save_weights(tensor::Stream& stream) const;
  void restore_weights(tensor::Stream& stream) const;
  /// Exchanges the moments of next() and all().
  void swap_moments();
  tensor::Tensor gradients() const { return gradients_; }
  tensor::Tensor weights() const { return weights_; }
  /// The gradient of the matrix that embedding and head share: see Stage::tied_gradient().
  tensor::Tensor tied_gradient() const;

  /// Views of a layer's parameters. Gradients are empty without training.
  BlockParameters block_weights(int layer) const { return block(layer, &Parameter::weight); }
  BlockParameters block_gradients(int layer) const { return block(layer, &Parameter::gradient); }
  HeadParameters head_weights() const;
  HeadParameters head_gradients() const;
  EmbeddingParameters embedding_weights() const { return embedding(&Parameter::weight); }
  EmbeddingParameters embedding_gradients() const { return embedding(&Parameter::gradient); }

  /// How the shards divide a parameter, by its number in all().
  Split split_of(int parameter) const { return splits_[static_cast<std::size_t>(parameter)]; }
  /// Numbers in all() of the parameters whose gradients lie in this tensor, one of the views above.
  std::vector<int> numbers_of(const tensor::Tensor& gradients) const;

  /// Stage::add_tied_uses().
  void add_tied_uses(tensor::Stream& stream, const ParameterRange& parameters) const;

 private:
  /// The first parameter of a layer (ParameterInfo::layer).
  const Parameter& first_of(int layer) const;
  EmbeddingParameters embedding(tensor::Tensor Parameter::*field) const;
  BlockParameters block(int layer, tensor::Tensor Parameter::*field) const;
  HeadParameters head(tensor::Tensor Parameter::*field) const;

  const ModelConfig model_;
  tensor::Ops& ops_;
  tensor::Buffer weight_memory_;
  tensor::Buffer gradient_memory_;
  tensor::Buffer exp_avg_memory_;
  tensor::Buffer exp_avg_sq_memory_;
  tensor::Buffer twin_memory_;  ///< both moments
  tensor::Buffer tied_memory_;
  tensor::Tensor gradients_;
  tensor::Tensor head_use_;         ///< gradient of the head's use if both uses are here
  tensor::Buffer previous_memory_;  ///< weights, then two moments
  tensor::Tensor weights_, saved_weights_;
  std::vector<Parameter> all_, next_;
  std::vector<Split> splits_;
  std::map<int, std::size_t> first_of_layer_;  ///< indices into all_
};

}  // namespace troupe::stages
