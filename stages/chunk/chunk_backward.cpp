#include <utility>

#include "stages/chunk/chunk.h"
#include "tensor/error.h"

namespace troupe::stages {

using tensor::Gradient;
using tensor::Tensor;
using Sublayer = Node::Sublayer;
using Work = Node::Work;

/// A collective is only started. The nodes that read its result wait for it: an input gradient for
/// the gradient of its output, a weight gradient for its input too, and a norm for the sum of its
/// gradient.
void Chunk::run_backward(Pass pass, const Node& node, ChunkSlot& slot,
                         const DeferredSlot& deferred) {
  PendingCollectives& pending = slot.pending;
  const std::size_t i = node.block;
  settle(pass, node, pending, layers_->streams->backward());
  if (node.again) return run_again(node, slot);
  switch (node.work) {
    case Work::gather_gradient:
      pending.gradient = gather_gradient(node, slot, deferred);
      return;
    case Work::gather_input_again:
      pending.input = node.part == Sublayer::head
                          ? layers_->head->gather_input_again(slot.head)
                          : layers_->block.gather_input_again(branch_of(node), slot.blocks[i]);
      return;
    case Work::reduce_gradient:
      pending.reduced =
          node.part == Sublayer::head
              ? layers_->head->reduce_gradient(slot.head, head_deferred(slot, deferred))
              : layers_->block.reduce_gradient(branch_of(node), slot.blocks[i]);
      return;
    case Work::input_gradient:
      return input_gradient(node, slot, deferred);
    default:
      return weight_gradient(node, slot, deferred);
  }
}

const Tensor& Chunk::dx(const ChunkSlot& slot, const DeferredSlot& deferred, std::size_t i) const {
  if (i < blocks_.size()) return slot.blocks[i].mid;
  if (spec_.head) return deferred.head.dx;
  return gathers_edges() ? deferred.output_gradient : slot.output_gradient;
}

std::unique_ptr<tensor::Work> Chunk::gather_gradient(const Node& node, const ChunkSlot& slot,
                                                     const DeferredSlot& deferred) const {
  const std::size_t i = node.block;
  switch (node.part) {
    case Sublayer::edge:
      return layers_->parallel.groups->backward->all_gather(
          layers_->streams->backward(), slot.output_gradient, deferred.output_gradient);
    case Sublayer::embedding:
      return layers_->embedding.gather_gradient(dx(slot, deferred, 0), slot.embedding,
                                                slot.backward_tokens);
    case Sublayer::attention:
      return layers_->block.gather_gradient(Branch::attention, deferred.blocks[i].dmid,
                                            slot.blocks[i]);
    case Sublayer::feed_forward:
      return layers_->block.gather_gradient(Branch::feed_forward, dx(slot, deferred, i + 1),
                                            slot.blocks[i]);
    default:
      assert_failed("the part gathers a gradient", __FILE__, __LINE__);
  }
}

void Chunk::send_input_gradient(const ChunkSlot& slot, const Tensor& dx) const {
  if (gathers_edges() && !spec_.embedding)
    layers_->ops->copy(layers_->streams->backward(), slice_of(dx), slot.input_gradient);
}

void Chunk::input_gradient(const Node& node, const ChunkSlot& slot,
                           const DeferredSlot& deferred) const {
  const DecoderBlock& block = layers_->block;
  const std::size_t i = node.block;
  switch (node.part) {
    case Sublayer::head:
      return layers_->head->input_gradient(backward_head_, slot.head,
                                           head_deferred(slot, deferred));
    case Sublayer::final_norm: {
      const HeadDeferred head = head_deferred(slot, deferred);
      layers_->head->input_gradient_norm(backward_head_, slot.head, head);
      if (begins_with_head()) send_input_gradient(slot, head.dx);
      return;
    }
    case Sublayer::copy:
      return layers_->ops->copy(layers_->streams->backward(), slot.output_gradient,
                                slot.input_gradient);
    case Sublayer::feed_forward:
      return block.input_gradient_feed_forward(backward_blocks_[i], dx(slot, deferred, i + 1),
                                               slot.blocks[i]);
    case Sublayer::post_norm:
      return block.input_gradient_post_norm(backward_blocks_[i], dx(slot, deferred, i + 1),
                                            slot.blocks[i], deferred.blocks[i]);
    case Sublayer::attention:
      return block.input_gradient_attention(backward_blocks_[i], slot.blocks[i],
                                            deferred.blocks[i]);
    case Sublayer::input_norm: {
      const bool stays = i > 0 || !reads_input();
      const Tensor& out = stays ? slot.blocks[i].mid : slot.input_gradient;
      block.input_gradient_input_norm(backward_blocks_[i], slot.blocks[i], deferred.blocks[i], out);
      if (i == 0) send_input_gradient(slot, out);
      return;
    }
    case Sublayer::embedding:
    case Sublayer::edge:
      return;
  }
}

HeadDeferred Chunk::head_deferred(const ChunkSlot& slot, const DeferredSlot& deferred) const {
  HeadDeferred head = deferred.head;
  if (blocks_.empty() && reads_input()) head.dx = slot.input_gradient;
  return head;
}

void Chunk::weight_gradient(const Node& node, const ChunkSlot& slot, const DeferredSlot& deferred) {
  if (node.part == Sublayer::copy) return;
  const bool is_first = divides_gradients_ || !std::exchange(has_gradient(node), true);
  const Gradient which = is_first ? Gradient::first : Gradient::added;
  if (const std::vector<Tensor>& frozen = frozen_[index_of(node)]; !frozen.empty()) {
    if (is_first)
      for (const Tensor& gradient : frozen)
        layers_->ops->fill_zero(layers_->streams->backward(), gradient);
    return;
  }
  const DecoderBlock& block = layers_->block;
  const std::size_t i = node.block;
  switch (node.part) {
    case Sublayer::head:
      return layers_->head->weight_gradient(slot.head, head_gradients_, which);
    case Sublayer::final_norm:
      return layers_->head->weight_gradient_norm(deferred.head, head_gradients_, which);
    case Sublayer::feed_forward:
      return block.weight_gradient_feed_forward(dx(slot, deferred, i + 1), slot.blocks[i],
                                                block_gradients_[i], which);
    case Sublayer::post_norm:
      return block.weight_gradient_post_norm(deferred.blocks[i], block_gradients_[i], which);
    case Sublayer::attention:
      return block.weight_gradient_attention(slot.blocks[i], deferred.blocks[i],
                                             block_gradients_[i], which);
    case Sublayer::input_norm:
      return block.weight_gradient_input_norm(deferred.blocks[i], block_gradients_[i], which);
    case Sublayer::embedding:
      return layers_->embedding.weight_gradient(dx(slot, deferred, 0), slot.embedding,
                                                slot.backward_tokens, embedding_gradients_, which);
    case Sublayer::edge:
    case Sublayer::copy:
      return;
  }
}

}  // namespace troupe::stages
