#pragma once

#include "stages/decoder/chunk/chunk_layers.h"

namespace troupe::stages {

/// One sublayer of a chunk, with what its nodes find in a call.
struct SublayerPlace {
  const ChunkLayers* chunk;
  std::size_t block;
  Branch branch;
  bool again = false;

  const Sublayer& layer() const {
    return (again ? *chunk->layers->recompute_block : chunk->layers->block)[branch];
  }
  /// The call of a forward, or of what is computed again.
  SublayerCall forward(const NodeCall& call) const {
    const auto& weights = again ? chunk->backward_blocks : chunk->blocks;
    return {.weights = weights[block][branch],
            .kept = call.slot.blocks[block][branch],
            .out = chunk->output_of(call.slot, block, branch),
            .again = again};
  }
  SublayerCall backward(const NodeCall& call) const {
    return {.weights = chunk->backward_blocks[block][branch],
            .kept = call.slot.blocks[block][branch],
            .out = chunk->output_gradient(call, block, branch),
            .deferred = &call.deferred->blocks[block][branch]};
  }
  const SublayerForm& form() const { return chunk->form; }
  /// Whether its rows travel to experts of other replicas.
  bool exchanges_rows() const {
    return branch == Branch::feed_forward && chunk->exchanges_rows(block);
  }
  /// Whether shards gather no tokens for it, and sum nothing.
  bool keeps_tokens() const {
    return branch == Branch::feed_forward && chunk->has_whole_experts(block);
  }
  /// Which products have weight gradients.
  AdaptedProducts trained() const {
    if (!form().has_frozen_base) return {.in = true, .out = true};
    return branch == Branch::attention ? form().attention_adapters : form().feed_forward_adapters;
  }
  bool sums_heads() const { return form().sums_heads && branch == Branch::attention; }
  bool is_first() const { return block == 0 && branch == Branch::attention; }
  /// Where the gradient of its input goes.
  const tensor::Tensor& dx(const NodeCall& call) const {
    if (branch == Branch::feed_forward) return call.deferred->blocks[block][branch].dx;
    return is_first() && chunk->reads_input() ? call.slot.input_gradient
                                              : chunk->gradient_of(call, block);
  }
  const SublayerParameters& gradients() const { return chunk->block_gradients[block][branch]; }
  /// Whether a backward's `out` is the gradient of the chunk's output.
  bool reads_output_gradient() const {
    return !chunk->spec.head && branch == Branch::feed_forward && block + 1 == chunk->num_blocks();
  }
  /// Keeps the shard's part of the layer's input, if the slot keeps no more of it.
  void keep_input_part(const NodeCall& call) const {
    if (again || branch == Branch::feed_forward) return;
    if (const tensor::Tensor part = chunk->input_part(call.slot, block))
      chunk->layers->ops->copy(chunk->layers->streams->forward(),
                               chunk->slice_of(forward(call).kept.x), part);
  }
};

// The nodes of a sublayer whose rows travel to experts of other replicas.

/// From the norm to the sum of the experts' results, in place of both products.
void add_travelling_products(NodeList& nodes, const SublayerPlace& place, bool without_output);
/// From the gradient of the sublayer's output, which is that of the chunk's if it `reads` this, to
/// that of the router's product. What follows may run while the rows' gradients are on their way.
void add_travelling_gradient(NodeList& nodes, const SublayerPlace& place, bool reads);
/// To that of the norm, when they are back.
void add_returned_gradient(NodeList& nodes, const SublayerPlace& place);

}  // namespace troupe::stages
