#pragma once

#include "stages/decoder/layers/sublayer.h"

namespace troupe::stages {

/// The decoder layer of a model's kind, before the next layer's norm: attention, then the
/// feed-forward. One object serves every layer of a stage. What is said here is of both sublayers
/// together, whose memory overlaps.
class DecoderBlock {
 public:
  DecoderBlock(const LayerSpec& spec, tensor::Device& device, const Streams& streams);
  DecoderBlock(const DecoderBlock&) = delete;  // its sublayers refer to its products

  const Sublayer& operator[](Branch branch) const { return sublayers_[branch]; }

  const BlockProducts& products() const { return products_; }
  const SublayerForm& form() const { return products_.attention.form; }
  /// Memory of forwards and evaluations, and of backwards.
  GatheredTokens lay_out_gathered(Arena& arena) const;
  /// Memory of forwards through experts; empty without.
  RoutedScratch lay_out_routed(Arena& arena) const;
  void lay_out_backward_scratch(Arena& arena, SublayerScratch& out) const;
  /// Takes memory for the input of a layer that owns it.
  tensor::Tensor lay_out_input(Arena& arena) const;
  /// Takes memory for one of `parts` equal parts of an input, flat.
  tensor::Tensor lay_out_input_part(Arena& arena, int parts) const;
  /// Takes memory for the bounds of the documents of a microbatch; none if it has no documents.
  tensor::Tensor lay_out_documents(Arena& arena) const;
  /// Takes memory for which tokens of documents are no padding; none without experts either.
  tensor::Tensor lay_out_counted(Arena& arena) const;
  /// Room for the counts of a layer's rows that travel to experts.
  RowCounts row_counts() const;
  /// Elements of RoutedActivations::load_sum; 0 without experts.
  std::int64_t load_size() const;
  /// Takes memory for activations, never for the layer's input, because whether a layer owns that
  /// depends on the chunk.
  BlockActivations lay_out_activations(Arena& arena, const SublayerScratch& scratch,
                                       const ActivationGroups& groups = kAllActivations) const;
  BlockDeferred lay_out_deferred(Arena& arena) const;
  /// The most tokens of a microbatch, for which memory is laid out.
  std::int64_t max_tokens() const { return shape_.T; }
  /// Lets what is laid out be of a microbatch of fewer tokens, or of as many as there is room for.
  template <typename T>
  void use_tokens(std::int64_t tokens, BranchPair<T>& of_layer) const {
    sublayers_.attention.use_tokens(tokens, of_layer.attention);
    sublayers_.feed_forward.use_tokens(tokens, of_layer.feed_forward);
  }

 private:
  void lay_out_feed_forward_inner(Arena& arena, SublayerActivations& kept) const;

  LayerShape shape_;
  bool has_documents_;
  bool drops_;  ///< whether there is hidden dropout in training, or a scale of embeddings
  bool sums_heads_;
  BlockProducts products_;
  BranchPair<Sublayer> sublayers_;
};

}  // namespace troupe::stages
