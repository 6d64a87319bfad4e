#include "stages/chunk.h"

#include <algorithm>

#include "tensor/error.h"

namespace troupe::stages {

using tensor::Tensor;

namespace {

constexpr int kNodesOfBlock = 4;

template <typename Slot>
Slot& at(std::vector<Slot>& slots, int index) {
  TROUPE_ASSERT(index >= 0 && static_cast<std::size_t>(index) < slots.size());
  return slots[static_cast<std::size_t>(index)];
}

}  // namespace

std::vector<PackedChunk> lay_out_packed(std::span<const ChunkSpec> chunks, const Layers& layers,
                                        Arena& arena) {
  std::vector<PackedChunk> out;
  for (const ChunkSpec& spec : chunks) {
    PackedChunk& packed = out.emplace_back();
    for (int layer = spec.first_layer; layer < spec.end_layer; ++layer) {
      packed.blocks.push_back(layers.block.lay_out_packed(arena));
    }
    if (spec.head) packed.head = layers.head->lay_out_packed(arena);
  }
  return out;
}

Chunk::Chunk(const ChunkSpec& spec, const Layers& layers, const Parameters& parameters,
             const PackedChunk& packed, ChunkActivations activations)
    : spec_(spec), layers_(&layers), activations_(std::move(activations)) {
  for (int layer = spec.first_layer; layer < spec.end_layer; ++layer) {
    const auto i = static_cast<std::size_t>(layer - spec.first_layer);
    blocks_.push_back({.master = parameters.block_weights(layer), .packed = packed.blocks[i]});
    block_gradients_.push_back(parameters.block_gradients(layer));
  }
  if (spec.embedding) {
    table_ = parameters.embedding_weight();
    table_gradient_ = parameters.embedding_gradient();
  }
  if (spec.head) {
    head_ = {.master = parameters.head_weights(), .packed = packed.head};
    head_gradients_ = parameters.head_gradients();
  }
}

void Chunk::pack() const {
  for (const BlockWeights& block : blocks_) layers_->block.pack(block);
  if (spec_.head) layers_->head->pack(head_);
}

int Chunk::num_nodes() const {
  const int nodes = (spec_.embedding ? 1 : 0) + kNodesOfBlock * static_cast<int>(blocks_.size()) +
                    (spec_.head ? 1 : 0);
  return std::max(nodes, 1);
}

Chunk::Node Chunk::node_at(int place) const {
  TROUPE_ASSERT(place >= 0 && place < num_nodes());
  if (spec_.embedding && place-- == 0) return {Node::Kind::embedding};
  const auto block = static_cast<std::size_t>(place / kNodesOfBlock);
  if (block == blocks_.size()) return {spec_.head ? Node::Kind::head : Node::Kind::pass};
  constexpr Node::Kind kBlock[kNodesOfBlock] = {Node::Kind::input_norm, Node::Kind::attention,
                                                Node::Kind::post_norm, Node::Kind::feed_forward};
  return {kBlock[place % kNodesOfBlock], block};
}

ForwardResult Chunk::forward_node(const ForwardCall& call, int place, float loss_scale) {
  ChunkSlot& slot = at(activations_.slots, call.slot);
  const Node node = node_at(place);
  if (node.kind != Node::Kind::head) {
    run_forward(node, slot, call);
    return {};
  }
  if (begins_with_head()) slot.head.x = call.input;
  layers_->head->forward(head_, slot.head);
  return {.loss_sum = layers_->head->loss(call.targets, loss_scale, slot.head)};
}

ForwardResult Chunk::evaluate(const Tensor& input, const Tensor& output,
                              std::span<const std::int32_t> ids,
                              std::span<const std::int32_t> targets) {
  ChunkSlot& slot = activations_.evaluation;
  const ForwardCall call{.input = input, .output = output, .ids = ids, .targets = targets};
  for (int place = 0; place < num_nodes(); ++place)
    if (const Node node = node_at(place); node.kind != Node::Kind::head)
      run_forward(node, slot, call);
  if (!spec_.head) return {};
  HeadActivations head = slot.head;
  if (begins_with_head()) head.x = input;
  if (output) head.logits = output;
  layers_->head->forward(head_, head);
  if (output && targets.empty()) return {};
  return {.loss_sum = layers_->head->loss(targets, 1.0f, head)};
}

void Chunk::run_forward(const Node& node, ChunkSlot& slot, const ForwardCall& call) const {
  const auto into = [&](std::size_t i) -> const Tensor& {
    return i < blocks_.size() ? slot.blocks[i].x : spec_.head ? slot.head.x : call.output;
  };
  const DecoderBlock& block = layers_->block;
  const std::size_t i = node.block;
  switch (node.kind) {
    case Node::Kind::embedding:
      return layers_->embedding.forward(call.ids, table_, slot.embedding, into(0));
    case Node::Kind::input_norm:
      if (i == 0 && !spec_.embedding) slot.blocks.front().x = call.input;
      return block.forward_input_norm(blocks_[i], slot.blocks[i]);
    case Node::Kind::attention:
      return block.forward_attention(blocks_[i], slot.blocks[i]);
    case Node::Kind::post_norm:
      return block.forward_post_norm(blocks_[i], slot.blocks[i]);
    case Node::Kind::feed_forward:
      return block.forward_feed_forward(blocks_[i], slot.blocks[i], into(i + 1));
    case Node::Kind::pass:
      return layers_->ops->copy(*layers_->stream, call.input, call.output);
    case Node::Kind::head:
      return;
  }
}

DeferredSlot& Chunk::deferred_at(int deferred) {
  return deferred == BackwardCall::kWithWeights ? activations_.immediate
                                                : at(activations_.deferred, deferred);
}

void Chunk::backward_node(const BackwardCall& call, int place) {
  ChunkSlot& slot = at(activations_.slots, call.slot);
  const DeferredSlot& deferred = deferred_at(call.deferred);
  slot.output_gradient = call.output_gradient;
  slot.input_gradient = call.input_gradient;
  const Node node = node_at(num_nodes() - 1 - place);
  input_gradient(node, slot, deferred);
  if (call.deferred == BackwardCall::kWithWeights) weight_gradient(node, slot, deferred);
}

void Chunk::backward_weight(int slot, int deferred) {
  for (int place = num_nodes(); place-- > 0;)
    weight_gradient(node_at(place), at(activations_.slots, slot), deferred_at(deferred));
}

const Tensor& Chunk::dx(const ChunkSlot& slot, const DeferredSlot& deferred, std::size_t i) const {
  if (i < blocks_.size()) return slot.blocks[i].mid;
  return spec_.head ? deferred.head.dx : slot.output_gradient;
}

void Chunk::input_gradient(const Node& node, const ChunkSlot& slot,
                           const DeferredSlot& deferred) const {
  const DecoderBlock& block = layers_->block;
  const std::size_t i = node.block;
  switch (node.kind) {
    case Node::Kind::head: {
      HeadDeferred head = deferred.head;
      if (begins_with_head()) head.dx = slot.input_gradient;
      return layers_->head->input_gradient(head_, slot.head, head);
    }
    case Node::Kind::pass:
      return layers_->ops->copy(*layers_->stream, slot.output_gradient, slot.input_gradient);
    case Node::Kind::feed_forward:
      return block.input_gradient_feed_forward(blocks_[i], dx(slot, deferred, i + 1),
                                               slot.blocks[i]);
    case Node::Kind::post_norm:
      return block.input_gradient_post_norm(blocks_[i], dx(slot, deferred, i + 1), slot.blocks[i],
                                            deferred.blocks[i]);
    case Node::Kind::attention:
      return block.input_gradient_attention(blocks_[i], slot.blocks[i], deferred.blocks[i]);
    case Node::Kind::input_norm: {
      const bool stays = i > 0 || spec_.embedding;
      return block.input_gradient_input_norm(blocks_[i], slot.blocks[i], deferred.blocks[i],
                                             stays ? slot.blocks[i].mid : slot.input_gradient);
    }
    case Node::Kind::embedding:
      return;
  }
}

void Chunk::weight_gradient(const Node& node, const ChunkSlot& slot,
                            const DeferredSlot& deferred) const {
  const DecoderBlock& block = layers_->block;
  const std::size_t i = node.block;
  switch (node.kind) {
    case Node::Kind::head:
      return layers_->head->weight_gradient(slot.head, deferred.head, head_gradients_);
    case Node::Kind::feed_forward:
      return block.weight_gradient_feed_forward(dx(slot, deferred, i + 1), slot.blocks[i],
                                                block_gradients_[i]);
    case Node::Kind::post_norm:
      return block.weight_gradient_post_norm(deferred.blocks[i], block_gradients_[i]);
    case Node::Kind::attention:
      return block.weight_gradient_attention(slot.blocks[i], deferred.blocks[i],
                                             block_gradients_[i]);
    case Node::Kind::input_norm:
      return block.weight_gradient_input_norm(deferred.blocks[i], block_gradients_[i]);
    case Node::Kind::embedding:
      return layers_->embedding.weight_gradient(dx(slot, deferred, 0), slot.embedding,
                                                table_gradient_);
    case Node::Kind::pass:
      return;
  }
}

}  // namespace troupe::stages
