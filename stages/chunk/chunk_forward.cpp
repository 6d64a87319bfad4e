#include <utility>

#include "stages/chunk/chunk.h"
#include "tensor/error.h"

namespace troupe::stages {

using tensor::Tensor;
using Sublayer = Node::Sublayer;

void Chunk::evaluate(const ForwardCall& call) {
  ChunkSlot& slot = activations_.evaluation;
  const Tensor logits = slot.head.logits;
  if (spec_.head && call.output) slot.head.logits = call.output;
  begin_microbatch(call, slot);
  const ForwardCall in_use = rows_in_use(call, slot);
  const std::vector<Node>& nodes = row(Pass::forward).nodes;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    open(Pass::forward, static_cast<int>(i));
    run_forward(nodes[i], slot, in_use, 1.0f);
  }
  slot.head.logits = logits;
}

/// A collective is only started. What comes next in the row waits for it, because it reads the
/// result, and the nodes of another pass may run before that.
void Chunk::run_forward(const Node& node, ChunkSlot& slot, const ForwardCall& call,
                        float loss_scale) {
  settle(Pass::forward, node, slot.pending, layers_->streams->forward());
  switch (node.work) {
    case Node::Work::gather_input:
    case Node::Work::reduce_output:
      slot.pending.forward = start_forward(node, slot, call);
      return;
    case Node::Work::finish_output:
      return finish_output(node, slot, call);
    case Node::Work::reduce_max:
    case Node::Work::local_sums:
    case Node::Work::reduce_sums:
    case Node::Work::loss:
      if (!call.targets.empty()) run_loss(node, slot, call, loss_scale);
      return;
    default:
      return compute_forward(node, slot, call);
  }
}

void Chunk::run_loss(const Node& node, ChunkSlot& slot, const ForwardCall& call,
                     float loss_scale) const {
  const HeadLoss& head = *layers_->head;
  switch (node.work) {
    case Node::Work::reduce_max:
      slot.pending.forward = head.reduce_max(slot.head);
      return;
    case Node::Work::local_sums:
      return head.local_sums(call.targets, slot.head);
    case Node::Work::reduce_sums:
      slot.pending.forward = head.reduce_sums(slot.head);
      return;
    default:
      return head.loss(call.targets, loss_scale, slot.head, call.loss, call.token_losses);
  }
}

const Tensor& Chunk::into(const ChunkSlot& slot, const ForwardCall& call, std::size_t i) const {
  if (i < blocks_.size()) return slot.blocks[i].x;
  if (spec_.head) return slot.head.x;
  return gathers_edges() ? slot.output : call.output;
}

void Chunk::compute_forward(const Node& node, ChunkSlot& slot, const ForwardCall& call) const {
  const DecoderBlock& block = layers_->block;
  const std::size_t i = node.block;
  switch (node.part) {
    case Sublayer::embedding:
      return layers_->embedding.forward(call.ids, call.documents.positions, embedding_,
                                        slot.embedding, slot.forward_tokens, into(slot, call, 0));
    case Sublayer::input_norm:
      if (i == 0 && reads_input()) slot.blocks.front().x = call.input;
      keep_input_part(slot, i);
      return block.forward_input_norm(blocks_[i], slot.blocks[i]);
    case Sublayer::attention:
      return block.forward_attention(blocks_[i], slot.blocks[i]);
    case Sublayer::post_norm:
      return block.forward_post_norm(blocks_[i], slot.blocks[i]);
    case Sublayer::feed_forward:
      return block.forward_feed_forward(blocks_[i], slot.blocks[i], into(slot, call, i + 1));
    case Sublayer::final_norm:
      if (blocks_.empty() && reads_input()) slot.head.x = call.input;
      return layers_->head->forward_norm(head_, slot.head);
    case Sublayer::head:
      return layers_->head->forward(head_, slot.head);
    case Sublayer::copy:
      return layers_->ops->copy(layers_->streams->forward(), call.input, call.output);
    case Sublayer::edge:
      return;
  }
}

std::unique_ptr<tensor::Work> Chunk::start_forward(const Node& node, const ChunkSlot& slot,
                                                   const ForwardCall& call) const {
  const bool gathers = node.work == Node::Work::gather_input;
  const std::size_t i = node.block;
  switch (node.part) {
    case Sublayer::edge:
      return layers_->parallel.groups->forward->all_gather(layers_->streams->forward(), call.input,
                                                           into(slot, call, 0));
    case Sublayer::embedding:
      return layers_->embedding.reduce_output(slot.forward_tokens, into(slot, call, 0));
    case Sublayer::head:
      return layers_->head->gather_input(slot.head);
    case Sublayer::attention:
    case Sublayer::feed_forward:
      break;
    default:
      assert_failed("the part has a collective", __FILE__, __LINE__);
  }
  const BlockActivations& kept = slot.blocks[i];
  const Branch branch = branch_of(node);
  if (gathers) return layers_->block.gather_input(branch, kept);
  const Tensor& y = branch == Branch::attention ? kept.mid : into(slot, call, i + 1);
  return layers_->block.reduce_output(branch, kept, y);
}

void Chunk::finish_output(const Node& node, const ChunkSlot& slot, const ForwardCall& call) const {
  const std::size_t next = node.part == Sublayer::embedding ? 0 : node.block + 1;
  const Tensor& y = into(slot, call, next);
  if (node.part == Sublayer::feed_forward)
    layers_->block.finish_feed_forward(blocks_[node.block], slot.blocks[node.block], y);
  else
    layers_->embedding.finish_output(embedding_, slot.embedding, y);
  const bool is_output = next == blocks_.size() && !spec_.head;
  if (is_output && gathers_edges())
    layers_->ops->copy(layers_->streams->forward(), slice_of(y), call.output);
}

}  // namespace troupe::stages
