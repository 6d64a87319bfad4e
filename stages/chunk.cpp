#include "stages/chunk.h"

#include "tensor/error.h"

namespace troupe::stages {

using tensor::Tensor;

namespace {

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

ForwardResult Chunk::forward(int slot_index, const Tensor& input, const Tensor& output,
                             std::span<const std::int32_t> ids,
                             std::span<const std::int32_t> targets, float loss_scale) {
  ChunkSlot& slot = at(activations_.slots, slot_index);
  run_blocks(slot, input, output, ids);
  if (!spec_.head) return {};
  layers_->head->forward(head_, slot.head);
  return {.loss_sum = layers_->head->loss(targets, loss_scale, slot.head)};
}

ForwardResult Chunk::evaluate(const Tensor& input, const Tensor& output,
                              std::span<const std::int32_t> ids,
                              std::span<const std::int32_t> targets) {
  ChunkSlot& slot = activations_.evaluation;
  run_blocks(slot, input, output, ids);
  if (!spec_.head) return {};
  HeadActivations head = slot.head;
  if (output) head.logits = output;
  layers_->head->forward(head_, head);
  if (output && targets.empty()) return {};
  return {.loss_sum = layers_->head->loss(targets, 1.0f, head)};
}

void Chunk::run_blocks(ChunkSlot& slot, const Tensor& input, const Tensor& output,
                       std::span<const std::int32_t> ids) const {
  if (spec_.embedding) {
    layers_->embedding.forward(ids, table_, slot.embedding, slot.blocks.front().x);
  } else {
    slot.blocks.front().x = input;
  }
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const bool last = i + 1 == blocks_.size();
    const Tensor& y = !last ? slot.blocks[i + 1].x : spec_.head ? slot.head.x : output;
    layers_->block.forward(blocks_[i], slot.blocks[i], y);
  }
}

void Chunk::backward_input(int slot_index, int deferred_index, const Tensor& output_gradient,
                           const Tensor& input_gradient) {
  ChunkSlot& slot = at(activations_.slots, slot_index);
  const DeferredSlot& deferred = at(activations_.deferred, deferred_index);
  slot.output_gradient = output_gradient;
  slot.input_gradient = input_gradient;
  if (spec_.head) layers_->head->input_gradient(head_, slot.head, deferred.head);
  for (std::size_t i = blocks_.size(); i-- > 0;) block_input_gradient(slot, deferred, i);
}

void Chunk::backward_weight(int slot_index, int deferred_index) {
  const ChunkSlot& slot = at(activations_.slots, slot_index);
  const DeferredSlot& deferred = at(activations_.deferred, deferred_index);
  if (spec_.head) layers_->head->weight_gradient(slot.head, deferred.head, head_gradients_);
  for (std::size_t i = blocks_.size(); i-- > 0;) block_weight_gradient(slot, deferred, i);
  embedding_weight_gradient(slot);
}

void Chunk::backward(int slot_index, const Tensor& output_gradient, const Tensor& input_gradient) {
  ChunkSlot& slot = at(activations_.slots, slot_index);
  const DeferredSlot& deferred = activations_.immediate;
  slot.output_gradient = output_gradient;
  slot.input_gradient = input_gradient;
  if (spec_.head) {
    layers_->head->input_gradient(head_, slot.head, deferred.head);
    layers_->head->weight_gradient(slot.head, deferred.head, head_gradients_);
  }
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    block_input_gradient(slot, deferred, i);
    block_weight_gradient(slot, deferred, i);
  }
  embedding_weight_gradient(slot);
}

const Tensor& Chunk::dy(const ChunkSlot& slot, const DeferredSlot& deferred, std::size_t i) const {
  if (i + 1 < blocks_.size()) return slot.blocks[i + 1].mid;
  return spec_.head ? deferred.head.dx : slot.output_gradient;
}

void Chunk::block_input_gradient(const ChunkSlot& slot, const DeferredSlot& deferred,
                                 std::size_t i) const {
  const bool stays = i > 0 || spec_.embedding;
  const Tensor& dx = stays ? slot.blocks[i].mid : slot.input_gradient;
  layers_->block.input_gradient(blocks_[i], dy(slot, deferred, i), slot.blocks[i],
                                deferred.blocks[i], dx);
}

void Chunk::block_weight_gradient(const ChunkSlot& slot, const DeferredSlot& deferred,
                                  std::size_t i) const {
  layers_->block.weight_gradient(dy(slot, deferred, i), slot.blocks[i], deferred.blocks[i],
                                 block_gradients_[i]);
}

void Chunk::embedding_weight_gradient(const ChunkSlot& slot) const {
  if (!spec_.embedding) return;
  layers_->embedding.weight_gradient(slot.blocks.front().mid, slot.embedding, table_gradient_);
}

}  // namespace troupe::stages
