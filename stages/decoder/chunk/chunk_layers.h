#pragma once

#include <vector>

#include "stages/decoder/chunk/node.h"
#include "stages/decoder/layers/layers.h"
#include "stages/decoder/layers/sublayer_form.h"

namespace troupe::stages {

/// The layers of one chunk with their weights and gradients, and where a microbatch has the tensors
/// between them: what its nodes compute with.
struct ChunkLayers {
  ChunkSpec spec;
  Sharding sharding{};
  Recompute recompute{};
  SublayerForm form{};
  bool head_is_in_parts = false;   ///< HeadParts::are_divided
  std::vector<char> routed{};      ///< routed_layers() of the model; empty: no layer has experts
  const Layers* layers = nullptr;  ///< null: only to learn which nodes there are
  std::vector<BlockWeights> blocks{};
  std::vector<BlockWeights> backward_blocks{};  ///< the same, as backwards read them
  std::vector<BlockParameters> block_gradients{};
  HeadWeights head{}, backward_head{};
  HeadParameters head_gradients{};
  EmbeddingParameters embedding{}, embedding_gradients{};

  std::size_t num_blocks() const { return spec.num_layers(); }
  /// Whether the chunk has no layers at all.
  bool copies() const { return !spec.embedding && !spec.head && num_blocks() == 0; }
  bool gathers_edges() const { return stages::gathers_edges(sharding) && !copies(); }
  /// Whether rows of the block travel to experts of other replicas.
  bool exchanges_rows(std::size_t block) const {
    return sharding.ep > 1 && !routed.empty() &&
           routed[static_cast<std::size_t>(spec.first_layer) + block];
  }
  /// Whether each shard computes the block's experts for its own tokens.
  bool has_whole_experts(std::size_t block) const {
    return sharding.whole_experts && !routed.empty() &&
           routed[static_cast<std::size_t>(spec.first_layer) + block];
  }
  /// Whether the first layer computes with the caller's input, and not with a gathered one.
  bool reads_input() const { return !spec.embedding && !gathers_edges(); }

  /// The input of block i, which the layer before it writes, or that of what follows the last.
  const tensor::Tensor& input_of(const ChunkSlot& slot, std::size_t i) const;
  /// What a sublayer writes.
  const tensor::Tensor& output_of(const ChunkSlot& slot, std::size_t i, Branch branch) const;
  /// The gradient of input_of(), but for that of the chunk's own input.
  const tensor::Tensor& gradient_of(const NodeCall& call, std::size_t i) const;
  /// The gradient of output_of().
  const tensor::Tensor& output_gradient(const NodeCall& call, std::size_t i, Branch branch) const;
  HeadDeferred head_deferred(const NodeCall& call) const;

  /// The part of a tensor [T, C] that travels between chunks.
  tensor::Tensor slice_of(const tensor::Tensor& all) const;
  /// Copies the shard's slice of the chunk's output, or of the gradient of its input, to the
  /// caller's buffer, if chunks exchange slices. `next` counts as in input_of().
  void send_output(const NodeCall& call, std::size_t next) const;
  void send_input_gradient(const NodeCall& call, const tensor::Tensor& dx) const;
  /// The shard's part of a block's input, of as many tokens as the slot has; empty if the slot
  /// keeps all of it, or none.
  tensor::Tensor input_part(const ChunkSlot& slot, std::size_t block) const;
};

// The rows that each part of a chunk adds. `layers` outlives the nodes.

void add_edge_gather(NodeList& nodes, const ChunkLayers& layers);
void add_edge_gradient_gather(NodeList& nodes, const ChunkLayers& layers);
void add_copy(NodeList& nodes, const ChunkLayers& layers);
void add_copy_gradients(NodeList& nodes, const ChunkLayers& layers);
void add_embedding(NodeList& nodes, const ChunkLayers& layers);
void add_embedding_gradients(NodeList& nodes, const ChunkLayers& layers);
/// Both sublayers of a block. What a backward computes again may end with what the feed-forward
/// keeps, because nobody reads the block's output again.
void add_block(NodeList& nodes, const ChunkLayers& layers, std::size_t block,
               bool without_output = false);
/// With what is computed again of the block before its gradients.
void add_block_gradients(NodeList& nodes, const ChunkLayers& layers, std::size_t block);
void add_head(NodeList& nodes, const ChunkLayers& layers);
void add_head_gradients(NodeList& nodes, const ChunkLayers& layers);

/// All rows of a pass.
NodeRow row_of(const ChunkLayers& layers, Pass pass);

}  // namespace troupe::stages
