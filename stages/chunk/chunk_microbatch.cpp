#include "stages/chunk/chunk.h"
#include "tensor/error.h"

// What a slot's microbatch is: how many tokens it has, which documents they are, what is dropped.

namespace troupe::stages {

using tensor::Tensor;

void Chunk::begin_microbatch(const ForwardCall& call, ChunkSlot& slot) const {
  const auto& [rows, bounds, positions] = call.documents;
  TROUPE_ASSERT((rows > 0) == static_cast<bool>(slot.documents));
  slot.tokens = rows > 0 ? rows : layers_->block.max_tokens();
  use_tokens(slot);
  Tensor starts = slot.documents;
  if (starts) {
    use_rows(starts, std::ssize(bounds));
    layers_->ops->copy(layers_->streams->forward(), host_tokens(bounds), starts);
  }
  if (&slot == &activations_.evaluation) {
    for (BlockActivations& block : slot.blocks) block.dropout.probabilities.documents = starts;
    return;
  }
  slot.embedding.dropout = layers_->dropout.of_embedding(call.place, slot.tokens);
  for (std::size_t i = 0; i < slot.blocks.size(); ++i) {
    BlockDropout& dropout = slot.blocks[i].dropout;
    dropout =
        layers_->dropout.of_block(spec_.first_layer + static_cast<int>(i), call.place, slot.tokens);
    dropout.probabilities.documents = starts;
  }
}

void Chunk::use_tokens(ChunkSlot& slot) const {
  if (!slot.documents) return;  // all microbatches have as many tokens as there is room for
  layers_->embedding.use_tokens(slot.tokens, slot.embedding);
  for (BlockActivations& block : slot.blocks) layers_->block.use_tokens(slot.tokens, block);
  if (spec_.head) layers_->head->use_tokens(slot.tokens, slot.head);
  use_rows(slot.forward_tokens, slot.tokens);
  use_rows(slot.backward_tokens, slot.tokens);
  use_rows(slot.output, slot.tokens);
}

void Chunk::use_tokens(const ChunkSlot& slot, DeferredSlot& deferred) const {
  if (!slot.documents) return;
  for (BlockDeferred& block : deferred.blocks) layers_->block.use_tokens(slot.tokens, block);
  if (spec_.head) layers_->head->use_tokens(slot.tokens, deferred.head);
  use_rows(deferred.output_gradient, slot.tokens);
}

Tensor Chunk::rows_in_use(const Tensor& edge, const ChunkSlot& slot) const {
  if (!edge || !slot.documents) return edge;
  Tensor in_use = edge;
  const std::int64_t rows = edge.shape[0] * slot.tokens / layers_->block.max_tokens();
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
