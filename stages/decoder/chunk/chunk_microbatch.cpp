#include <algorithm>

#include "stages/decoder/chunk/chunk.h"
#include "tensor/errors/error.h"

// What a slot's microbatch is: how many tokens it has, which documents they are, what is dropped.

namespace troupe::stages {

using tensor::Tensor;

void Chunk::begin_microbatch(const ForwardCall& call, ChunkSlot& slot) const {
  const Layers& layers = *layers_.layers;
  const auto& [rows, bounds, positions, real] = call.documents;
  TROUPE_ASSERT((rows > 0) == static_cast<bool>(slot.documents));
  slot.tokens = rows > 0 ? rows : layers.block.max_tokens();
  use_tokens(slot);
  slot.output = rows_in_use(call.output, slot);
  if (layers_.reads_input())
    (slot.blocks.empty() ? slot.head.x : slot.blocks.front().attention.x) =
        rows_in_use(call.input, slot);
  Tensor starts = slot.documents;
  if (starts) {
    use_rows(starts, std::ssize(bounds));
    layers.ops->copy(layers.streams->forward(), host_tokens(bounds), starts);
  }
  for (BlockActivations& block : slot.blocks) block.attention.attention.documents = starts;
  for (std::size_t i = 0; i < slot.blocks.size(); ++i) {
    RoutedActivations& routed = slot.blocks[i].feed_forward.routed;
    routed.received.counts = &slot.row_counts[i];
    routed.choice.layer = layers_.spec.first_layer + static_cast<int>(i);
  }
  if (&slot == &activations_.evaluation) return;
  count_tokens(call, slot);
  slot.embedding.dropout = layers.dropout.of_embedding(call.place, slot.tokens);
  for (std::size_t i = 0; i < slot.blocks.size(); ++i) {
    const int layer = layers_.spec.first_layer + static_cast<int>(i);
    BlockDropout dropout = layers.dropout.of_block(layer, call.place, slot.tokens);
    dropout.probabilities.documents = starts;
    slot.blocks[i].attention.dropout = dropout.attention;
    slot.blocks[i].attention.attention = dropout.probabilities;
    slot.blocks[i].feed_forward.dropout = dropout.feed_forward;
    slot.blocks[i].attention.adapter_dropout = dropout.attention_adapter;
    slot.blocks[i].feed_forward.adapter_dropout = dropout.feed_forward_adapter;
  }
}

/// Tells routers which tokens are no padding, and where they add up what they do.
void Chunk::count_tokens(const ForwardCall& call, ChunkSlot& slot) const {
  const Sharding& sharding = layers_.sharding;
  const std::int64_t own = sharding.whole_experts ? slot.tokens / sharding.size : slot.tokens;
  const std::int64_t first = sharding.whole_experts ? sharding.shard * own : 0;
  Tensor counted;
  std::int64_t num_counted = slot.tokens, num_own = own;
  if (slot.counted && !call.documents.real.empty()) {
    const auto real = call.documents.real;
    const auto of_own =
        real.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(own));
    counted = slot.counted;
    use_rows(counted, own);
    layers_.layers->ops->copy(layers_.layers->streams->forward(), host_tokens(of_own), counted);
    num_counted = std::max<std::int64_t>(1, std::ranges::count(real, 1));
    num_own = std::ranges::count(of_own, 1);
  }
  for (std::size_t i = 0; i < slot.blocks.size(); ++i) {
    RoutedActivations& routed = slot.blocks[i].feed_forward.routed;
    routed.load_sum = activations_.loads[i];
    routed.choice.counted = counted;
    routed.choice.num_counted = num_counted;
    routed.choice.num_own = num_own;
  }
}

void Chunk::move_discarded(ChunkSlot& slot, const std::vector<BlockActivations>& to) const {
  if (!slot.discards) return;
  for (std::size_t i = 0; i < slot.blocks.size(); ++i) move_activations(to[i], slot.blocks[i]);
}

void Chunk::use_tokens(ChunkSlot& slot) const {
  if (!slot.documents) return;  // all microbatches have as many tokens as there is room for
  const Layers& layers = *layers_.layers;
  layers.embedding.use_tokens(slot.tokens, slot.embedding);
  for (BlockActivations& block : slot.blocks) layers.block.use_tokens(slot.tokens, block);
  if (layers_.spec.head) layers.head->use_tokens(slot.tokens, slot.head);
  use_rows(slot.forward_tokens, slot.tokens);
  use_rows(slot.backward_tokens, slot.tokens);
  use_rows(slot.whole_output, slot.tokens);
}

void Chunk::use_tokens(const ChunkSlot& slot, DeferredSlot& deferred) const {
  if (!slot.documents) return;
  const Layers& layers = *layers_.layers;
  for (BlockDeferred& block : deferred.blocks) layers.block.use_tokens(slot.tokens, block);
  if (layers_.spec.head) layers.head->use_tokens(slot.tokens, deferred.head);
  use_rows(deferred.output_gradient, slot.tokens);
}

Tensor Chunk::rows_in_use(const Tensor& edge, const ChunkSlot& slot) const {
  if (!edge || !slot.documents) return edge;
  Tensor in_use = edge;
  const std::int64_t rows = edge.shape[0] * slot.tokens / layers_.layers->block.max_tokens();
  use_rows(in_use, rows);
  return in_use;
}

ForwardCall Chunk::rows_in_use(const ForwardCall& call, const ChunkSlot& slot) const {
  ForwardCall in_use = call;
  in_use.input = rows_in_use(call.input, slot);
  in_use.output = rows_in_use(call.output, slot);
  return in_use;
}

}  // namespace troupe::stages
