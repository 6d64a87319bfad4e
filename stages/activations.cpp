#include "stages/activations.h"

#include <algorithm>

namespace troupe::stages {
namespace {

struct Scratch {
  BlockScratch block;
  HeadScratch head;
};

std::size_t num_blocks(const ChunkSpec& spec) {
  return static_cast<std::size_t>(spec.end_layer - spec.first_layer);
}

ChunkSlot lay_out_slot(const ChunkSpec& spec, const Layers& layers, const Scratch& scratch,
                       Arena& arena) {
  ChunkSlot slot;
  if (spec.embedding) slot.embedding = layers.embedding.lay_out_activations(arena);
  for (std::size_t i = 0; i < num_blocks(spec); ++i) {
    BlockActivations block = layers.block.lay_out_activations(arena, scratch.block);
    if (i > 0 || spec.embedding) block.x = layers.block.lay_out_input(arena);
    slot.blocks.push_back(block);
  }
  if (spec.head) {
    slot.head = layers.head->lay_out_activations(arena, scratch.head);
    if (spec.embedding || !slot.blocks.empty()) slot.head.x = layers.block.lay_out_input(arena);
  }
  return slot;
}

DeferredSlot lay_out_deferred(const ChunkSpec& spec, const Layers& layers, Arena& arena) {
  DeferredSlot slot;
  for (std::size_t i = 0; i < num_blocks(spec); ++i) {
    slot.blocks.push_back(layers.block.lay_out_deferred(arena));
  }
  if (spec.head) slot.head = layers.head->lay_out_deferred(arena);
  return slot;
}

/// One block's room serves all chunks: one backward with weights is over before the next begins.
void lay_out_immediate(std::span<const ChunkSpec> chunks, const Layers& layers, Arena& arena,
                       std::vector<ChunkActivations>& out) {
  const BlockDeferred block = layers.block.lay_out_deferred(arena);
  HeadDeferred head;
  if (layers.head) head = layers.head->lay_out_deferred(arena);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    out[c].immediate = {.blocks = std::vector(num_blocks(chunks[c]), block), .head = head};
  }
}

void lay_out_evaluation(std::span<const ChunkSpec> chunks, const Layers& layers,
                        const Scratch& scratch, Arena& arena, std::vector<ChunkActivations>& out) {
  ChunkSlot slot;
  slot.embedding = layers.embedding.lay_out_activations(arena);
  BlockActivations block = layers.block.lay_out_activations(arena, scratch.block);
  block.x = layers.block.lay_out_input(arena);
  if (layers.head) slot.head = layers.head->lay_out_evaluation(arena, scratch.head);
  slot.head.x = block.x;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    slot.blocks.assign(num_blocks(chunks[c]), block);
    out[c].evaluation = slot;
  }
}

/// Memory of the layers' own, for all calls.
void lay_out_layers(const Layers& layers, Arena& arena) {
  layers.block.lay_out_attention(arena);
  std::size_t bytes = layers.block.product_scratch_bytes();
  if (layers.head) bytes = std::max(bytes, layers.head->product_scratch_bytes());
  void* const scratch = arena.take_bytes(bytes);
  if (!scratch) return;  // the arena only counts
  layers.block.set_product_scratch(scratch);
  if (layers.head) layers.head->set_product_scratch(scratch);
}

}  // namespace

std::vector<ChunkActivations> lay_out_activations(std::span<const ChunkSpec> chunks,
                                                  const Layers& layers, Mode mode, Arena& arena) {
  std::vector<ChunkActivations> out(chunks.size());
  lay_out_layers(layers, arena);
  Scratch scratch;
  scratch.block = layers.block.lay_out_scratch(arena);
  if (layers.head) scratch.head = layers.head->lay_out_scratch(arena);
  const std::size_t start = arena.position();
  if (mode == Mode::training) lay_out_immediate(chunks, layers, arena, out);
  const std::size_t end_of_backward = arena.position();
  arena.rewind(start);
  lay_out_evaluation(chunks, layers, scratch, arena, out);
  if (mode == Mode::evaluation) return out;
  arena.rewind(std::max(arena.position(), end_of_backward));
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    for (int i = 0; i < chunks[c].live; ++i) {
      out[c].slots.push_back(lay_out_slot(chunks[c], layers, scratch, arena));
    }
    for (int i = 0; i < chunks[c].deferred; ++i) {
      out[c].deferred.push_back(lay_out_deferred(chunks[c], layers, arena));
    }
  }
  return out;
}

}  // namespace troupe::stages
