#include "stages/decoder/chunk/packed_chunks.h"

#include <algorithm>

namespace troupe::stages {
namespace {

/// Lays out the matrices of every layer and head. `place(bucket, lay_out)` calls lay_out(arena)
/// with the arena in which a bucket's lie.
template <typename Place>
std::vector<PackedChunk::Matrices> lay_out_matrices(const StageSpec& spec,
                                                    const ParameterLayout& layout,
                                                    const Layers& layers, const Place& place) {
  std::vector<PackedChunk::Matrices> all;
  for (const ChunkSpec& chunk : spec.chunks) {
    PackedChunk::Matrices& matrices = all.emplace_back();
    for (int layer = chunk.first_layer; layer < chunk.end_layer; ++layer)
      place(layout.bucket_of(layer), [&](Arena& arena) {
        const auto lay_out = [&](Arena* experts) {
          matrices.blocks.push_back(layers.block.products().lay_out_packed(arena, experts));
        };
        if (!is_routed(spec.model, layer)) return lay_out(nullptr);
        place(layout.bucket_of_experts(layer), [&](Arena& experts) {
          lay_out(layout.bucket_of_experts(layer) == layout.bucket_of(layer) ? &arena : &experts);
        });
      });
    if (chunk.head)
      place(layout.bucket_of_head(spec.model),
            [&](Arena& arena) { matrices.head = layers.head->lay_out_packed(arena); });
  }
  return all;
}

/// Each slot is as large as the matrices of the largest of its buckets.
std::vector<PackedChunk::Matrices> lay_out_in_slots(const StageSpec& spec,
                                                    const ParameterLayout& layout,
                                                    const BucketSlots& slots, const Layers& layers,
                                                    Arena& arena) {
  const auto slot_of = [&](int bucket) {
    return static_cast<std::size_t>(slots.slot_of[static_cast<std::size_t>(bucket)]);
  };
  std::vector<std::size_t> bytes(slots.offsets.size());
  lay_out_matrices(spec, layout, layers, [&](int bucket, const auto& lay_out) {
    Arena count;
    lay_out(count);
    bytes[slot_of(bucket)] = std::max(bytes[slot_of(bucket)], count.bytes());
  });
  std::vector<void*> memory;
  for (const std::size_t of_slot : bytes) memory.push_back(arena.take_bytes(of_slot));
  return lay_out_matrices(spec, layout, layers, [&](int bucket, const auto& lay_out) {
    Arena slot(memory[slot_of(bucket)]);
    lay_out(slot);
  });
}

}  // namespace

std::vector<PackedChunk> lay_out_packed(const StageSpec& spec, const ParameterLayout& layout,
                                        const Layers& layers, Arena& arena) {
  std::vector<PackedChunk::Matrices> forward, backward;
  if (spec.state.weights && spec.state.reshards) {
    forward = lay_out_in_slots(spec, layout, layout.forward_slots, layers, arena);
    backward = lay_out_in_slots(spec, layout, layout.backward_slots, layers, arena);
  } else {
    forward = backward =
        lay_out_matrices(spec, layout, layers, [&](int, const auto& lay_out) { lay_out(arena); });
  }
  std::vector<PackedChunk> chunks(forward.size());
  for (std::size_t i = 0; i < chunks.size(); ++i)
    chunks[i] = {.forward = std::move(forward[i]), .backward = std::move(backward[i])};
  return chunks;
}

}  // namespace troupe::stages
