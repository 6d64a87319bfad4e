#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "stages/decoder/layers/decoder_block.h"
#include "stages/decoder/layers/embedding.h"
#include "stages/decoder/layers/head_loss.h"
#include "stages/decoder/parameters/parameter_layout.h"

namespace troupe::stages {

/// A stage's parameters with gradients and optimizer state.
class Parameters {
 public:
  Parameters(const StageSpec& spec, tensor::Device& device);

  /// The bytes of weights, gradients and optimizer state.
  StageMemory allocated() const;
  std::span<const Parameter> all() const { return all_; }
  /// The parameters with the moments that the next update writes, which are others than those of
  /// all() if keep_previous is set.
  std::span<const Parameter> next() const { return next_; }
  /// Copies aside what an update changes in place: weights, and moments of twins.
  void save_in_place(tensor::Stream& stream) const;
  void restore_in_place(tensor::Stream& stream) const;
  /// Exchanges the moments of next() and all().
  void swap_moments();
  /// Stage::give_up_gradients(), and what makes it undone. The device is that of the parameters.
  std::int64_t give_up_gradients(tensor::Device& device);
  void bring_back_gradients(tensor::Device& device);
  tensor::Tensor gradients() const { return gradients_; }
  tensor::Tensor weights() const { return weights_; }
  /// Stage::base().
  tensor::Tensor base() const;
  std::span<const StateBucket> buckets() const { return buckets_; }
  bool divides_gradients() const { return divides_gradients_; }
  bool divides_weights() const { return !weights_; }
  /// The gradient of the matrix that embedding and head share: see Stage::tied_gradient().
  tensor::Tensor tied_gradient() const;

  /// Views of a layer's parameters: as the nodes of a pass read them, or as backwards write them.
  /// Gradients are empty without training.
  BlockParameters block_weights(int layer, Pass pass) const {
    return block(layer, weights_of(pass));
  }
  BlockParameters block_gradients(int layer) const { return block(layer, gradient_views_); }
  HeadParameters head_weights(Pass pass) const;
  HeadParameters head_gradients() const;
  EmbeddingParameters embedding_weights() const { return embedding(forward_views_); }
  EmbeddingParameters embedding_gradients() const { return embedding(gradient_views_); }
  /// What the weight gradients of a module write: none without training.
  std::vector<tensor::Tensor> gradients_of(Module module, int layer) const;

  const ParameterLayout& layout() const { return layout_; }

  /// Stage::add_tied_uses().
  void add_tied_uses(tensor::Stream& stream, const ParameterRange& parameters) const;

 private:
  using Views = std::vector<tensor::Tensor>;  // by number in all()

  std::int64_t saved_elements() const;
  void view_whole(const StageSpec& spec);
  std::array<const tensor::Buffer*, 3> gradient_buffers() const {
    return {&gradient_memory_, &bucket_memory_, &tied_memory_};
  }
  void view_slots(const StageSpec& spec);
  void view_kept(const StageSpec& spec);
  void view_buckets(const StageSpec& spec);
  const Views& weights_of(Pass pass) const {
    return pass == Pass::forward ? forward_views_ : backward_views_;
  }
  /// The view of a field of a module; those that one product computes with joined. Empty: none.
  tensor::Tensor view_of(const Views& views, Module module, Field field, int layer = 0) const;
  NormParameters norm(const Views& views, Module module, int layer = 0) const;
  EmbeddingParameters embedding(const Views& views) const;
  BlockParameters block(int layer, const Views& views) const;
  HeadParameters head(const Views& views, const tensor::Tensor& head_use) const;

  const ParameterLayout layout_;
  tensor::Ops& ops_;
  tensor::Buffer weight_memory_;
  tensor::Buffer apart_memory_;  ///< weights of a frozen base
  tensor::Buffer gradient_memory_;
  tensor::Buffer gathered_memory_;  ///< slots of whole weights: of forwards, then of backwards
  tensor::Buffer bucket_memory_;    ///< slots of whole gradients
  tensor::Buffer exp_avg_memory_;
  tensor::Buffer exp_avg_sq_memory_;
  tensor::Buffer twin_memory_;  ///< both moments
  tensor::Buffer tied_memory_;
  tensor::Tensor gradients_;
  tensor::Tensor head_use_;  ///< where backwards write the head's use if both uses are here
  tensor::Tensor forward_head_use_, backward_head_use_;  ///< its weights, if gathered apart
  tensor::Buffer previous_memory_;                       ///< saved_, then two moments
  tensor::Tensor weights_;
  struct Saved {
    tensor::Tensor updated, copy;
  };
  std::vector<Saved> saved_;  ///< of what updates change in place; none without keep_previous
  std::vector<Parameter> all_, next_;
  Views forward_views_, backward_views_, gradient_views_;
  std::vector<StateBucket> buckets_;
  bool divides_gradients_ = false;
};

}  // namespace troupe::stages
