#pragma once

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "stages/decoder/chunk/chunk_layers.h"
#include "stages/decoder/chunk/packed_chunks.h"
#include "stages/decoder/parameters/parameters.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

/// One of the items, by a number that must be in range.
template <typename Items>
auto& at(Items& items, int index) {
  TROUPE_ASSERT(index >= 0 && static_cast<std::size_t>(index) < items.size());
  return items[static_cast<std::size_t>(index)];
}

/// The layers of one chunk in order, over numbered slots. Its functions implement those of Stage.
/// Runs the rows of its nodes (node.h), and knows nothing of what they compute.
class Chunk {
 public:
  /// `layers` and the memory behind all other arguments outlive the chunk.
  Chunk(const ChunkSpec& spec, const Layers& layers, const Parameters& parameters,
        const PackedChunk& packed, ChunkActivations activations);
  Chunk(const Chunk&) = delete;  // its nodes refer to its layers

  /// Packs all weights, or those of one bucket for a pass's nodes.
  void pack() const;
  /// Packs the matrices of adapters alone.
  void pack_adapters() const;
  void pack(int bucket, Pass pass) const;
  /// Sets what is told of each node (Stage::set_gate).
  void set_gate(NodeGate* gate) { gate_ = gate; }
  void add_packed_copies(std::vector<PackedCopy>& matrices) const;
  /// Makes the next gradient of each weight the first one of a step: what the gradients hold is of
  /// an earlier step.
  void begin_step();
  /// Sets the gradient of each weight that had none since begin_step() to zero. Not called if
  /// gradients are divided, because every microbatch's is the first one then.
  void complete_gradients();
  std::span<const NodeEffects> nodes(Pass pass) const { return row(pass).ends; }
  const tensor::Work* awaited(Pass pass, int slot, int node) const;
  /// `loss_scale` multiplies the gradients that start from this microbatch's loss.
  void forward_node(const ForwardCall& call, int node, float loss_scale);
  void backward_node(const BackwardCall& call, int node);
  tensor::Event& ran(int slot) const;
  /// Only queues the nodes. The loss is written where ForwardCall::loss says.
  void evaluate(const ForwardCall& call);
  /// What the routers have done since begin_step(), a row for each of the layers with experts;
  /// empty if there are none. Complete when all forwards have run.
  const tensor::Tensor& router_loads() const { return activations_.all_loads; }
  /// Seconds that nodes have waited for collectives since begin_step().
  double collective_wait_s() const { return collective_wait_s_; }
  /// Gives up collectives that were started in a step that was given up.
  void forget_collectives();

 private:
  const NodeRow& row(Pass pass) const { return rows_[static_cast<std::size_t>(pass)]; }
  /// Lets nodes say to which gradients they add, and which weights they read.
  void name_parameters(const Parameters& parameters);
  DeferredSlot& deferred_of(const BackwardCall& call);
  /// Lets the gate open for a node.
  void open(Pass pass, int node);
  void run(const Node& node, NodeCall call, tensor::Stream& stream);
  /// Waits for the collectives under way whose results a node reads.
  void wait_for_collectives(const Node& node, PendingCollectives& pending, tensor::Stream& stream);
  /// Says whether a weight gradient is the step's first one. False: there is nothing to compute.
  bool begin_gradient(const Node& node, tensor::Gradient& which);

  // What a slot's microbatch is, in chunk_microbatch.cpp.
  /// Sets of what tokens and documents the slot is, and what they drop, from here to the end of
  /// their backward, and where its forward finds the caller's buffers.
  void begin_microbatch(const ForwardCall& call, ChunkSlot& slot) const;
  void count_tokens(const ForwardCall& call, ChunkSlot& slot) const;
  /// Lets the activations that the slot discards lie in other memory.
  void move_discarded(ChunkSlot& slot, const std::vector<BlockActivations>& to) const;
  /// Makes the slot's views, or those of what I keeps for W, as long as the slot has tokens.
  void use_tokens(ChunkSlot& slot) const;
  void use_tokens(const ChunkSlot& slot, DeferredSlot& deferred) const;
  /// The rows of a tensor that travels between chunks which the slot's tokens use.
  tensor::Tensor rows_in_use(const tensor::Tensor& edge, const ChunkSlot& slot) const;
  ForwardCall rows_in_use(const ForwardCall& call, const ChunkSlot& slot) const;

  ChunkLayers layers_;
  std::array<NodeRow, 4> rows_;           // by pass
  std::deque<std::vector<int>> numbers_;  // lists of NodeEffects, of rows_
  ChunkActivations activations_;
  // Buckets of each block's weights, and of those of its experts.
  std::vector<int> unit_of_block_, unit_of_experts_;
  int unit_of_head_ = -1;  // and of the head's matrix
  const bool divides_gradients_;
  NodeGate* gate_ = nullptr;
  double collective_wait_s_ = 0;
  std::vector<char> has_gradient_;  // by Node::number: whether the step has written it
  std::vector<std::unique_ptr<tensor::Event>> ran_;  // by slot: reached when its last node has run
};

}  // namespace troupe::stages
