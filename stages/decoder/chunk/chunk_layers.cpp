#include "stages/decoder/chunk/chunk_layers.h"

namespace troupe::stages {

using tensor::Tensor;

const Tensor& ChunkLayers::input_of(const ChunkSlot& slot, std::size_t i) const {
  if (i < num_blocks()) return slot.blocks[i].attention.x;
  if (spec.head) return slot.head.x;
  return gathers_edges() ? slot.whole_output : slot.output;
}

const Tensor& ChunkLayers::output_of(const ChunkSlot& slot, std::size_t i, Branch branch) const {
  return branch == Branch::attention ? slot.blocks[i].feed_forward.x : input_of(slot, i + 1);
}

const Tensor& ChunkLayers::gradient_of(const NodeCall& call, std::size_t i) const {
  if (i < num_blocks()) return call.slot.blocks[i].feed_forward.x;
  if (spec.head) return call.deferred->head.dx;
  return gathers_edges() ? call.deferred->output_gradient : call.slot.output_gradient;
}

const Tensor& ChunkLayers::output_gradient(const NodeCall& call, std::size_t i,
                                           Branch branch) const {
  if (branch == Branch::attention) return call.deferred->blocks[i].feed_forward.dx;
  return gradient_of(call, i + 1);
}

HeadDeferred ChunkLayers::head_deferred(const NodeCall& call) const {
  HeadDeferred deferred = call.deferred->head;
  if (num_blocks() == 0 && reads_input()) deferred.dx = call.slot.input_gradient;
  return deferred;
}

Tensor ChunkLayers::slice_of(const Tensor& all) const {
  const std::int64_t elements = all.num_elements() / sharding.size;
  const std::size_t bytes = static_cast<std::size_t>(elements) * tensor::size_of(all.dtype);
  return {static_cast<std::byte*>(all.data) + static_cast<std::size_t>(sharding.shard) * bytes,
          all.dtype,
          {elements}};
}

void ChunkLayers::send_output(const NodeCall& call, std::size_t next) const {
  if (!gathers_edges() || spec.head || next < num_blocks()) return;
  layers->ops->copy(layers->streams->forward(), slice_of(input_of(call.slot, next)),
                    call.slot.output);
}

void ChunkLayers::send_input_gradient(const NodeCall& call, const Tensor& dx) const {
  if (!gathers_edges() || spec.embedding) return;
  layers->ops->copy(layers->streams->backward(), slice_of(dx), call.slot.input_gradient);
}

Tensor ChunkLayers::input_part(const ChunkSlot& slot, std::size_t block) const {
  if (block >= slot.input_parts.size() || !slot.input_parts[block]) return {};
  const Tensor& part = slot.input_parts[block];
  return {part.data, part.dtype, slice_of(slot.blocks[block].attention.x).shape};
}

}  // namespace troupe::stages
