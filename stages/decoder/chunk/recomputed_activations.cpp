#include "stages/decoder/chunk/recomputed_activations.h"

#include <algorithm>

namespace troupe::stages {
namespace {

/// Whether the layer's input lies where its other discarded activations do.
bool discards_input(const Layers& layers, std::size_t layer) {
  return !keeps_input(layers.recompute, layer) ||
         distributes_inputs(layers.recompute, layers.sharding);
}

/// Whether any layer's does.
bool discards_inputs(std::span<const ChunkSpec> chunks, const Layers& layers) {
  return std::ranges::any_of(chunks, [&](const ChunkSpec& chunk) {
    const std::size_t size = largest_group(layers.recompute, chunk.num_layers());
    return discards(chunk, layers.recompute) && size > 0 && discards_input(layers, size - 1);
  });
}

}  // namespace

bool discards(const ChunkSpec& chunk, const Recompute& recompute) {
  return recompute.mode != Recompute::Mode::none && chunk.num_layers() > 0 &&
         chunk.live > recompute.kept_microbatches;
}

std::vector<std::vector<BlockActivations>> lay_out_discarded(std::span<const ChunkSpec> chunks,
                                                             const Layers& layers,
                                                             const SublayerScratch& scratch,
                                                             Arena& arena) {
  const Recompute& recompute = layers.recompute;
  std::vector<std::vector<BlockActivations>> out(chunks.size());
  const auto is_one = [&](const ChunkSpec& chunk) { return discards(chunk, recompute); };
  if (std::ranges::none_of(chunks, is_one)) return out;
  const BlockActivations shared =
      layers.block.lay_out_activations(arena, scratch, discarded_by(recompute.mode));
  tensor::Tensor x;  // each layer writes its output over its input
  if (discards_inputs(chunks, layers)) x = layers.block.lay_out_input(arena);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (!is_one(chunks[c])) continue;
    for (std::size_t layer = 0; layer < chunks[c].num_layers(); ++layer) {
      const bool is_again = is_recomputed(recompute, layer);
      BlockActivations& block = out[c].emplace_back(is_again ? shared : without_memory(scratch));
      if (is_again && discards_input(layers, layer)) block.attention.x = x;
    }
  }
  return out;
}

RecomputedGroup::RecomputedGroup(std::span<const ChunkSpec> chunks, const Layers& layers,
                                 const SublayerScratch& scratch, Arena& arena)
    : recompute_(layers.recompute), scratch_(scratch) {
  scratch_.forward = scratch.backward;
  scratch_.routed_forward = scratch.routed_backward;
  std::size_t size = 0;
  for (const ChunkSpec& chunk : chunks)
    if (discards(chunk, recompute_))
      size = std::max(size, largest_group(recompute_, chunk.num_layers()));
  for (std::size_t place = 0; place < size; ++place) {
    BlockActivations& block = layers_.emplace_back(
        layers.block.lay_out_activations(arena, scratch_, discarded_by(recompute_.mode)));
    if (discards_input(layers, place)) block.attention.x = layers.block.lay_out_input(arena);
    mids_.push_back(block.feed_forward.x);
  }
  if (recompute_.mode == Recompute::Mode::full && size > 0)
    mids_.push_back(layers.block.lay_out_input(arena));
}

std::vector<BlockActivations> RecomputedGroup::of_chunk(const ChunkSpec& chunk) const {
  std::vector<BlockActivations> out;
  if (!discards(chunk, recompute_)) return out;
  for (std::size_t layer = 0; layer < chunk.num_layers(); ++layer) {
    if (!is_recomputed(recompute_, layer)) {
      out.push_back(without_memory(scratch_));
      continue;
    }
    out.push_back(layers_[layer - first_of_group(recompute_, layer)]);
    out.back().feed_forward.x = mids_[layer % mids_.size()];
  }
  return out;
}

std::vector<BlockActivations> RecomputedGroup::of_deferred(const ChunkSpec& chunk,
                                                           const Layers& layers,
                                                           Arena& arena) const {
  std::vector<BlockActivations> out = of_chunk(chunk);
  ActivationGroups read_later = discarded_by(recompute_.mode);
  read_later.inputs = false;
  for (std::size_t layer = 0; layer < out.size(); ++layer)
    if (is_recomputed(recompute_, layer))
      move_activations(layers.block.lay_out_activations(arena, scratch_, read_later), out[layer]);
  return out;
}

}  // namespace troupe::stages
