#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "stages/activations.h"
#include "stages/node_row.h"
#include "stages/parameters.h"

namespace troupe::stages {

/// The packed matrices of one chunk.
struct PackedChunk {
  std::vector<PackedBlock> blocks;
  void* head = nullptr;
};
std::vector<PackedChunk> lay_out_packed(std::span<const ChunkSpec> chunks, const Layers& layers,
                                        Arena& arena);

/// The layers of one chunk in order, over numbered slots. Its functions implement those of Stage.
class Chunk {
 public:
  /// `layers` and the memory behind all other arguments outlive the chunk.
  Chunk(const ChunkSpec& spec, const Layers& layers, const Parameters& parameters,
        const PackedChunk& packed, ChunkActivations activations);

  void pack() const;
  /// Makes the next gradient of each weight the first one of a step: what the gradients hold is of
  /// an earlier step.
  void forget_gradients();
  /// Sets the gradient of each weight that had none since forget_gradients() to zero.
  void complete_gradients();
  std::span<const NodeEnd> nodes(Pass pass) const { return row(pass).ends; }
  /// `loss_scale` multiplies the gradients that start from this microbatch's loss.
  ForwardResult forward_node(const ForwardCall& call, int node, float loss_scale);
  void backward_node(const BackwardCall& call, int node);
  void wait(int slot) const;
  ForwardResult evaluate(const tensor::Tensor& input, const tensor::Tensor& output,
                         std::span<const std::int32_t> ids, std::span<const std::int32_t> targets);

 private:
  const NodeRow& row(Pass pass) const { return rows_[static_cast<std::size_t>(pass)]; }
  const Node& node_at(Pass pass, int node) const;
  /// Runs any node of a forward except the head's.
  void run_forward(const Node& node, ChunkSlot& slot, const ForwardCall& call) const;
  void input_gradient(const Node& node, const ChunkSlot& slot, const DeferredSlot& deferred) const;
  void weight_gradient(const Node& node, const ChunkSlot& slot, const DeferredSlot& deferred);
  std::vector<tensor::Tensor> gradients_of(const Node& node) const;
  char& has_gradient(const Node& node);
  const DeferredSlot& deferred_of(const BackwardCall& call) const;
  /// Whether the chunk's input is also the head's input.
  bool begins_with_head() const { return spec_.head && blocks_.empty() && !spec_.embedding; }
  /// Gradient of the input of block i, or of what follows the last block; not of the chunk's input.
  const tensor::Tensor& dx(const ChunkSlot& slot, const DeferredSlot& deferred,
                           std::size_t i) const;

  ChunkSpec spec_;
  const Layers* layers_;
  std::array<NodeRow, 4> rows_;  // by pass
  std::vector<BlockWeights> blocks_;
  std::vector<BlockParameters> block_gradients_;
  HeadWeights head_;
  HeadParameters head_gradients_;
  tensor::Tensor table_;  ///< [V, C], the embedding's
  tensor::Tensor table_gradient_;
  ChunkActivations activations_;
  std::vector<char> has_gradient_;  // by block and part: whether the step has written it
  std::vector<std::unique_ptr<tensor::Event>> ran_;  // by slot: reached when its last node has run
};

}  // namespace troupe::stages
