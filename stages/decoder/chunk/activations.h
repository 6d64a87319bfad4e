#pragma once

#include <span>
#include <vector>

#include "stages/decoder/chunk/recomputed_activations.h"
#include "stages/decoder/layers/layers.h"
#include "stages/stage/stage.h"
#include "tensor/device/process_group.h"

namespace troupe::stages {

/// Collectives that a microbatch's nodes have started and none has waited for yet.
struct PendingCollectives {
  std::unique_ptr<tensor::Work> forward;   ///< a forward has one at a time
  std::unique_ptr<tensor::Work> again;     ///< so has what a backward computes again
  std::unique_ptr<tensor::Work> gradient;  ///< NodeList::gather_gradient
  std::unique_ptr<tensor::Work> input;     ///< NodeList::gather_input_again
  std::unique_ptr<tensor::Work> reduced;   ///< NodeList::reduce_gradient
  // Beside those, of rows that travel to experts.
  std::unique_ptr<tensor::Work> row_weights;   ///< of a forward
  std::unique_ptr<tensor::Work> row_gradient;  ///< on their way back
};
/// One of them; null: none.
using PendingCollective = std::unique_ptr<tensor::Work> PendingCollectives::*;

/// One microbatch's activations in one chunk, from its forward to its weight gradients.
struct ChunkSlot {
  EmbeddingActivations embedding;
  std::vector<BlockActivations> blocks;
  std::vector<RowCounts> row_counts;  ///< by block, of those whose rows travel to experts
  HeadActivations head;
  GatheredTokens forward_tokens, backward_tokens;  ///< shared with all slots
  std::int64_t tokens = 0;                         ///< of the microbatch
  /// Room for the bounds of as many documents as a microbatch has tokens, int32; empty if there are
  /// none.
  tensor::Tensor documents;
  /// [T] int32: which tokens are no padding; only with documents and experts.
  tensor::Tensor counted;
  tensor::Tensor whole_output;  ///< [T, C], scratch; only if chunks exchange slices
                                ///< (gathers_edges())
  PendingCollectives pending;
  /// Whether the slot discards activations: then those views of `blocks` change between forward and
  /// backward.
  bool discards = false;
  /// By block: the shard's part of the input, where the slot keeps no more of it
  /// (distributes_inputs()).
  std::vector<tensor::Tensor> input_parts;
  tensor::Tensor output;  ///< view of the caller's buffer, in a forward
  // Views of the caller's buffers, from I to W.
  tensor::Tensor output_gradient;
  tensor::Tensor input_gradient;
};

/// What I keeps for W, for one microbatch in one chunk.
struct DeferredSlot {
  std::vector<BlockDeferred> blocks;
  HeadDeferred head;
  std::vector<BlockActivations>
      again;                       ///< where activations that were discarded are computed again
  tensor::Tensor output_gradient;  ///< [T, C], gathered from slices (gathers_edges()); else empty
};

/// Everything that the calls of one chunk write, except parameters, gradients and the caller's
/// buffers.
struct ChunkActivations {
  std::vector<ChunkSlot> slots;
  std::vector<DeferredSlot> deferred;
  DeferredSlot immediate;                   ///< for a backward with weights: all blocks share one
  std::vector<BlockActivations> discarded;  ///< where forwards have what slots discard
  /// By block: what its routers have done in the step (RoutedActivations::load_sum), one after the
  /// other in `all_loads`; empty for a block without experts.
  std::vector<tensor::Tensor> loads;
  tensor::Tensor all_loads;
  ChunkSlot evaluation;  ///< for evaluate(): all blocks share one, each writes over its input
};

/// Divides the arena among scratch and the chunks' slots. Forwards and backwards may run at the
/// same time and so share nothing but slots. The scratch memory of backwards lies over that of
/// evaluate(), which runs alone; without training there is none for backwards.
std::vector<ChunkActivations> lay_out_activations(std::span<const ChunkSpec> chunks,
                                                  const Layers& layers, bool training,
                                                  Arena& arena);

}  // namespace troupe::stages
