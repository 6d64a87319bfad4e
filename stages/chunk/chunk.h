#pragma once

#include <array>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "stages/chunk/activations.h"
#include "stages/chunk/packed_chunks.h"
#include "stages/node_row.h"
#include "stages/parameters/parameters.h"

namespace troupe::stages {

/// The layers of one chunk in order, over numbered slots. Its functions implement those of Stage.
class Chunk {
 public:
  /// `layers` and the memory behind all other arguments outlive the chunk.
  Chunk(const ChunkSpec& spec, const Layers& layers, const Parameters& parameters,
        const PackedChunk& packed, ChunkActivations activations);

  /// Packs all weights, or those of one bucket for a pass's nodes.
  void pack() const;
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
  std::span<const NodeEnd> nodes(Pass pass) const { return row(pass).ends; }
  const tensor::Work* awaited(Pass pass, int slot, int node) const;
  /// `loss_scale` multiplies the gradients that start from this microbatch's loss.
  void forward_node(const ForwardCall& call, int node, float loss_scale);
  void backward_node(const BackwardCall& call, int node);
  tensor::Event& ran(int slot) const;
  /// Only queues the nodes. The loss is written where ForwardCall::loss says.
  void evaluate(const ForwardCall& call);
  /// Seconds that nodes have waited for collectives since begin_step().
  double collective_wait_s() const { return collective_wait_s_; }
  /// Gives up collectives that were started in a step that was given up.
  void forget_collectives();

 private:
  const NodeRow& row(Pass pass) const { return rows_[static_cast<std::size_t>(pass)]; }
  const Node& node_at(Pass pass, int node) const;
  static Branch branch_of(const Node& node);
  /// Waits for the collectives under way whose results a node reads.
  void settle(Pass pass, const Node& node, PendingCollectives& pending, tensor::Stream& stream);

  /// Sets of what tokens and documents the slot is, and what they drop, from here to the end of
  /// their backward.
  void begin_microbatch(const ForwardCall& call, ChunkSlot& slot) const;
  /// Lets the slot's views, or those of what I keeps for W, be of the slot's tokens.
  void use_tokens(ChunkSlot& slot) const;
  void use_tokens(const ChunkSlot& slot, DeferredSlot& deferred) const;
  /// The rows of a tensor that travels between chunks which the slot's tokens use.
  tensor::Tensor rows_in_use(const tensor::Tensor& edge, const ChunkSlot& slot) const;
  ForwardCall rows_in_use(const ForwardCall& call, const ChunkSlot& slot) const;

  // The nodes of a forward, in chunk_forward.cpp.
  void run_forward(const Node& node, ChunkSlot& slot, const ForwardCall& call, float loss_scale);
  void compute_forward(const Node& node, ChunkSlot& slot, const ForwardCall& call) const;
  std::unique_ptr<tensor::Work> start_forward(const Node& node, const ChunkSlot& slot,
                                              const ForwardCall& call) const;
  void finish_output(const Node& node, const ChunkSlot& slot, const ForwardCall& call) const;
  void run_loss(const Node& node, ChunkSlot& slot, const ForwardCall& call, float loss_scale) const;
  /// The output of block i - 1, or of the embedding, which the next part reads.
  const tensor::Tensor& into(const ChunkSlot& slot, const ForwardCall& call, std::size_t i) const;

  // What backwards compute again, in chunk_recompute.cpp.
  /// Lets the activations that the slot discards lie in other memory.
  void move_discarded(ChunkSlot& slot, const std::vector<BlockActivations>& to) const;
  void run_again(const Node& node, ChunkSlot& slot);
  void compute_again(const Node& node, const ChunkSlot& slot) const;
  std::unique_ptr<tensor::Work> start_again(const Node& node, const ChunkSlot& slot) const;
  /// Keeps the shard's part of the block's input, if the slot keeps no more of it.
  void keep_input_part(const ChunkSlot& slot, std::size_t block) const;
  /// Its memory, of as many tokens as the slot has.
  tensor::Tensor input_part(const ChunkSlot& slot, std::size_t block) const;

  // The nodes of backwards, in chunk_backward.cpp.
  void run_backward(Pass pass, const Node& node, ChunkSlot& slot, const DeferredSlot& deferred);
  void input_gradient(const Node& node, const ChunkSlot& slot, const DeferredSlot& deferred) const;
  void weight_gradient(const Node& node, const ChunkSlot& slot, const DeferredSlot& deferred);
  std::unique_ptr<tensor::Work> gather_gradient(const Node& node, const ChunkSlot& slot,
                                                const DeferredSlot& deferred) const;
  /// Copies the shard's slice of a gradient to the caller's buffer, if chunks exchange slices.
  void send_input_gradient(const ChunkSlot& slot, const tensor::Tensor& dx) const;
  /// What a weight gradient writes; tensors that the model's kind lacks are empty.
  std::vector<tensor::Tensor> gradients_of(const Node& node) const;
  static std::size_t index_of(const Node& node);  // among blocks and parts
  char& has_gradient(const Node& node);
  /// Lets nodes say to which gradients they add, and which weights they read.
  void name_parameters(const Parameters& parameters);
  /// Notes the gradients of a node whose parameters, which have these numbers, are all frozen.
  void note_frozen(const Node& node, const Parameters& parameters, std::span<const int> numbers);
  /// Lets the gate open for a node.
  void open(Pass pass, int node);
  DeferredSlot& deferred_of(const BackwardCall& call);
  /// Whether the chunk's input is also the head's input.
  bool begins_with_head() const { return spec_.head && blocks_.empty() && !spec_.embedding; }
  /// Whether the first part computes with the caller's input, and not with a gathered one.
  bool reads_input() const { return !spec_.embedding && !gathers_edges(); }
  bool gathers_edges() const { return stages::gathers_edges(layers_->sharding); }
  /// The part of a tensor [T, C] that travels between chunks.
  tensor::Tensor slice_of(const tensor::Tensor& all) const;
  HeadDeferred head_deferred(const ChunkSlot& slot, const DeferredSlot& deferred) const;
  /// Gradient of the input of block i, or of what follows the last block; not of the chunk's input.
  const tensor::Tensor& dx(const ChunkSlot& slot, const DeferredSlot& deferred,
                           std::size_t i) const;

  ChunkSpec spec_;
  const Layers* layers_;
  std::array<NodeRow, 4> rows_;           // by pass
  std::deque<std::vector<int>> numbers_;  // lists of NodeEnd, of rows_
  std::vector<BlockWeights> blocks_;
  std::vector<BlockWeights> backward_blocks_;  // the same, as backwards read them
  std::vector<BlockParameters> block_gradients_;
  HeadWeights head_, backward_head_;
  HeadParameters head_gradients_;
  EmbeddingParameters embedding_, embedding_gradients_;
  ChunkActivations activations_;
  std::vector<int> unit_of_block_;  // bucket of each block's weights
  int unit_of_head_ = -1;           // and of the head's matrix
  const bool divides_gradients_;
  NodeGate* gate_ = nullptr;
  double collective_wait_s_ = 0;
  std::vector<char> has_gradient_;  // by block and part: whether the step has written it
  /// By block and part: gradients that are zero, as all their parameters are frozen. What they are
  /// goes into no update, but into sums over replicas.
  std::vector<std::vector<tensor::Tensor>> frozen_;
  std::vector<std::unique_ptr<tensor::Event>> ran_;  // by slot: reached when its last node has run
};

}  // namespace troupe::stages
