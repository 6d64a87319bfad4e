#include "stages/chunk/chunk.h"
#include "tensor/error.h"

namespace troupe::stages {

using tensor::Tensor;
using Sublayer = Node::Sublayer;

void Chunk::move_discarded(ChunkSlot& slot, const std::vector<BlockActivations>& to) const {
  if (!slot.discards) return;
  for (std::size_t i = 0; i < slot.blocks.size(); ++i) move_activations(to[i], slot.blocks[i]);
}

void Chunk::keep_input_part(const ChunkSlot& slot, std::size_t block) const {
  if (block >= slot.input_parts.size() || !slot.input_parts[block]) return;
  layers_->ops->copy(layers_->streams->forward(), slice_of(slot.blocks[block].x),
                     input_part(slot, block));
}

Tensor Chunk::input_part(const ChunkSlot& slot, std::size_t block) const {
  const Tensor& part = slot.input_parts[block];
  return {part.data, part.dtype, slice_of(slot.blocks[block].x).shape};
}

/// The nodes of a forward, on the backward's stream. Slots that keep everything pass over them.
void Chunk::run_again(const Node& node, ChunkSlot& slot) {
  if (!slot.discards) return;
  switch (node.work) {
    case Node::Work::gather_input:
    case Node::Work::reduce_output:
      slot.pending.again = start_again(node, slot);
      return;
    case Node::Work::finish_output:
      return layers_->block_again->finish_feed_forward(
          backward_blocks_[node.block], slot.blocks[node.block], slot.blocks[node.block + 1].x);
    default:
      return compute_again(node, slot);
  }
}

void Chunk::compute_again(const Node& node, const ChunkSlot& slot) const {
  const DecoderBlock& block = *layers_->block_again;
  const std::size_t i = node.block;
  const BlockActivations& kept = slot.blocks[i];
  const Recompute& recompute = layers_->recompute;
  if (recompute.mode == Recompute::Mode::selective) return block.recompute_core(kept);
  if (recompute.mode == Recompute::Mode::output)
    return block.recompute_outputs(branch_of(node), backward_blocks_[i], kept);
  switch (node.part) {
    case Sublayer::input_norm:
      return block.forward_input_norm(backward_blocks_[i], kept);
    case Sublayer::attention:
      return block.forward_attention(backward_blocks_[i], kept);
    case Sublayer::post_norm:
      return block.forward_post_norm(backward_blocks_[i], kept);
    case Sublayer::feed_forward:
      if (ends_group(recompute, i, blocks_.size()))
        return block.forward_act(backward_blocks_[i], kept);
      return block.forward_feed_forward(backward_blocks_[i], kept, slot.blocks[i + 1].x);
    default:
      assert_failed("the part is computed again", __FILE__, __LINE__);
  }
}

std::unique_ptr<tensor::Work> Chunk::start_again(const Node& node, const ChunkSlot& slot) const {
  const BlockActivations& kept = slot.blocks[node.block];
  if (node.part == Sublayer::edge)
    return layers_->parallel.groups->backward->all_gather(layers_->streams->backward(),
                                                          input_part(slot, node.block), kept.x);
  const Branch branch = branch_of(node);
  if (node.work == Node::Work::gather_input)
    return layers_->block_again->gather_input(branch, kept);
  const Tensor& y = branch == Branch::attention ? kept.mid : slot.blocks[node.block + 1].x;
  return layers_->block_again->reduce_output(branch, kept, y);
}

}  // namespace troupe::stages
