#include "stages/chunk.h"

#include <algorithm>
#include <utility>

#include "tensor/error.h"

namespace troupe::stages {

using tensor::Gradient;
using tensor::Tensor;

namespace {

constexpr std::size_t kParts = static_cast<std::size_t>(Node::Sublayer::copy) + 1;

std::size_t block_count(const ChunkSpec& spec) {
  return static_cast<std::size_t>(spec.end_layer - spec.first_layer);
}

template <typename Items>
auto& at(Items& items, int index) {
  TROUPE_ASSERT(index >= 0 && static_cast<std::size_t>(index) < items.size());
  return items[static_cast<std::size_t>(index)];
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
    : spec_(spec),
      layers_(&layers),
      rows_{row_of(spec, Pass::forward), row_of(spec, Pass::backward),
            row_of(spec, Pass::input_gradient), row_of(spec, Pass::weight_gradient)},
      activations_(std::move(activations)),
      has_gradient_(std::max<std::size_t>(1, block_count(spec)) * kParts, true) {
  tensor::Device& device = layers.streams->forward().device();
  for (std::size_t i = 0; i < activations_.slots.size(); ++i) ran_.push_back(device.make_event());
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

const Node& Chunk::node_at(Pass pass, int node) const {
  return at(row(pass).nodes, node);
}

ForwardResult Chunk::forward_node(const ForwardCall& call, int number, float loss_scale) {
  ChunkSlot& slot = at(activations_.slots, call.slot);
  tensor::Event& ran = *at(ran_, call.slot);
  const Node& node = node_at(Pass::forward, number);
  ForwardResult result;
  ran.wait(layers_->streams->forward());
  if (node.part == Node::Sublayer::head) {
    if (begins_with_head()) slot.head.x = call.input;
    layers_->head->forward(head_, slot.head);
    result.loss_sum = layers_->head->loss(call.targets, loss_scale, slot.head);
  } else {
    run_forward(node, slot, call);
  }
  ran.record(layers_->streams->forward());
  return result;
}

void Chunk::backward_node(const BackwardCall& call, int number) {
  TROUPE_ASSERT(call.pass != Pass::forward);
  ChunkSlot& slot = at(activations_.slots, call.slot);
  tensor::Event& ran = *at(ran_, call.slot);
  const Node& node = node_at(call.pass, number);
  if (call.pass != Pass::weight_gradient) {
    slot.output_gradient = call.output_gradient;
    slot.input_gradient = call.input_gradient;
  }
  ran.wait(layers_->streams->backward());
  if (node.work == Node::Work::input_gradient)
    input_gradient(node, slot, deferred_of(call));
  else
    weight_gradient(node, slot, deferred_of(call));
  ran.record(layers_->streams->backward());
}

void Chunk::wait(int slot) const {
  at(ran_, slot)->synchronize();
}

ForwardResult Chunk::evaluate(const Tensor& input, const Tensor& output,
                              std::span<const std::int32_t> ids,
                              std::span<const std::int32_t> targets) {
  ChunkSlot& slot = activations_.evaluation;
  const ForwardCall call{.input = input, .output = output, .ids = ids, .targets = targets};
  for (const Node& node : row(Pass::forward).nodes)
    if (node.part != Node::Sublayer::head) run_forward(node, slot, call);
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
  switch (node.part) {
    case Node::Sublayer::embedding:
      return layers_->embedding.forward(call.ids, table_, slot.embedding, into(0));
    case Node::Sublayer::input_norm:
      if (i == 0 && !spec_.embedding) slot.blocks.front().x = call.input;
      return block.forward_input_norm(blocks_[i], slot.blocks[i]);
    case Node::Sublayer::attention:
      return block.forward_attention(blocks_[i], slot.blocks[i]);
    case Node::Sublayer::post_norm:
      return block.forward_post_norm(blocks_[i], slot.blocks[i]);
    case Node::Sublayer::feed_forward:
      return block.forward_feed_forward(blocks_[i], slot.blocks[i], into(i + 1));
    case Node::Sublayer::copy:
      return layers_->ops->copy(layers_->streams->forward(), call.input, call.output);
    case Node::Sublayer::head:
      return;
  }
}

const DeferredSlot& Chunk::deferred_of(const BackwardCall& call) const {
  if (call.pass == Pass::backward) return activations_.immediate;
  return at(activations_.deferred, call.deferred);
}

const Tensor& Chunk::dx(const ChunkSlot& slot, const DeferredSlot& deferred, std::size_t i) const {
  if (i < blocks_.size()) return slot.blocks[i].mid;
  return spec_.head ? deferred.head.dx : slot.output_gradient;
}

void Chunk::input_gradient(const Node& node, const ChunkSlot& slot,
                           const DeferredSlot& deferred) const {
  const DecoderBlock& block = layers_->block;
  const std::size_t i = node.block;
  switch (node.part) {
    case Node::Sublayer::head: {
      HeadDeferred head = deferred.head;
      if (begins_with_head()) head.dx = slot.input_gradient;
      return layers_->head->input_gradient(head_, slot.head, head);
    }
    case Node::Sublayer::copy:
      return layers_->ops->copy(layers_->streams->backward(), slot.output_gradient,
                                slot.input_gradient);
    case Node::Sublayer::feed_forward:
      return block.input_gradient_feed_forward(blocks_[i], dx(slot, deferred, i + 1),
                                               slot.blocks[i]);
    case Node::Sublayer::post_norm:
      return block.input_gradient_post_norm(blocks_[i], dx(slot, deferred, i + 1), slot.blocks[i],
                                            deferred.blocks[i]);
    case Node::Sublayer::attention:
      return block.input_gradient_attention(blocks_[i], slot.blocks[i], deferred.blocks[i]);
    case Node::Sublayer::input_norm: {
      const bool stays = i > 0 || spec_.embedding;
      return block.input_gradient_input_norm(blocks_[i], slot.blocks[i], deferred.blocks[i],
                                             stays ? slot.blocks[i].mid : slot.input_gradient);
    }
    case Node::Sublayer::embedding:
      return;
  }
}

void Chunk::weight_gradient(const Node& node, const ChunkSlot& slot, const DeferredSlot& deferred) {
  if (node.part == Node::Sublayer::copy) return;
  const bool is_first = !std::exchange(has_gradient(node), true);
  const Gradient which = is_first ? Gradient::first : Gradient::added;
  const DecoderBlock& block = layers_->block;
  const std::size_t i = node.block;
  switch (node.part) {
    case Node::Sublayer::head:
      return layers_->head->weight_gradient(slot.head, deferred.head, head_gradients_, which);
    case Node::Sublayer::feed_forward:
      return block.weight_gradient_feed_forward(dx(slot, deferred, i + 1), slot.blocks[i],
                                                block_gradients_[i], which);
    case Node::Sublayer::post_norm:
      return block.weight_gradient_post_norm(deferred.blocks[i], block_gradients_[i], which);
    case Node::Sublayer::attention:
      return block.weight_gradient_attention(slot.blocks[i], deferred.blocks[i],
                                             block_gradients_[i], which);
    case Node::Sublayer::input_norm:
      return block.weight_gradient_input_norm(deferred.blocks[i], block_gradients_[i], which);
    case Node::Sublayer::embedding:
      return layers_->embedding.weight_gradient(dx(slot, deferred, 0), slot.embedding,
                                                table_gradient_, which);
    case Node::Sublayer::copy:
      return;
  }
}

std::vector<Tensor> Chunk::gradients_of(const Node& node) const {
  const std::size_t i = node.block;
  switch (node.part) {
    case Node::Sublayer::head:
      return {head_gradients_.norm, head_gradients_.projection};
    case Node::Sublayer::feed_forward:
      return {block_gradients_[i].gate_up, block_gradients_[i].down};
    case Node::Sublayer::post_norm:
      return {block_gradients_[i].post_norm};
    case Node::Sublayer::attention:
      return {block_gradients_[i].qkv, block_gradients_[i].o};
    case Node::Sublayer::input_norm:
      return {block_gradients_[i].input_norm};
    case Node::Sublayer::embedding:
      return {table_gradient_};
    case Node::Sublayer::copy:
      return {};
  }
  assert_failed("part is a Part", __FILE__, __LINE__);
}

char& Chunk::has_gradient(const Node& node) {
  const auto part = static_cast<std::size_t>(node.part);
  return has_gradient_[node.block * kParts + part];
}

void Chunk::forget_gradients() {
  std::fill(has_gradient_.begin(), has_gradient_.end(), false);
}

void Chunk::complete_gradients() {
  for (const Node& node : row(Pass::weight_gradient).nodes) {
    if (node.part == Node::Sublayer::copy || std::exchange(has_gradient(node), true)) continue;
    for (const Tensor& gradient : gradients_of(node))
      layers_->ops->fill_zero(layers_->streams->backward(), gradient);
  }
}

}  // namespace troupe::stages
