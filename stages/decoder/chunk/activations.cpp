#include "stages/decoder/chunk/activations.h"

#include <algorithm>

#include "tensor/parallel/division.h"

namespace troupe::stages {
namespace {

/// Memory whose content no call may expect to find again.
struct Scratch {
  SublayerScratch block;
  HeadScratch head;
  tensor::Tensor output;  ///< ChunkSlot::whole_output
  tensor::Scratch attention;
  tensor::Scratch products;         ///< shared by all layers in turn
  void* attention_again = nullptr;  ///< of attention that a backward computes again
  RecomputedGroup again;
};

/// A slot with what all slots share.
ChunkSlot shared_slot(const Scratch& scratch) {
  ChunkSlot slot;
  slot.forward_tokens = scratch.block.forward;
  slot.backward_tokens = scratch.block.backward;
  slot.whole_output = scratch.output;
  slot.embedding.dropped = scratch.block.dropped;
  return slot;
}

/// Lays out what the embedding keeps, beside the scratch memory that the slot has.
void lay_out_embedding(const Layers& layers, Arena& arena, ChunkSlot& slot) {
  const tensor::Tensor dropped = slot.embedding.dropped;
  slot.embedding = layers.embedding.lay_out_activations(arena);
  slot.embedding.dropped = dropped;
}

/// Lays out what a slot keeps of a layer that is computed again.
void lay_out_kept(const Layers& layers, const Scratch& scratch, bool owns_input, Arena& arena,
                  ChunkSlot& slot) {
  const std::size_t i = slot.blocks.size();
  const Recompute& recompute = layers.recompute;
  BlockActivations& block = slot.blocks.emplace_back(
      layers.block.lay_out_activations(arena, scratch.block, kept_by(recompute.mode)));
  tensor::Tensor& part = slot.input_parts.emplace_back();
  if (!owns_input || !keeps_input(recompute, i)) return;
  if (distributes_inputs(recompute, layers.sharding))
    part = layers.block.lay_out_input_part(arena, layers.sharding.size);
  else
    block.attention.x = layers.block.lay_out_input(arena);
}

ChunkSlot lay_out_slot(const ChunkSpec& spec, int number, const Layers& layers,
                       const Scratch& scratch, Arena& arena) {
  ChunkSlot slot = shared_slot(scratch);
  slot.discards = discards(spec, layers.recompute) && number >= layers.recompute.kept_microbatches;
  const bool owns_input = spec.embedding || gathers_edges(layers.sharding);
  if (spec.embedding) lay_out_embedding(layers, arena, slot);
  slot.documents = layers.block.lay_out_documents(arena);
  slot.counted = layers.block.lay_out_counted(arena);
  slot.row_counts.assign(spec.num_layers(), layers.block.row_counts());
  for (std::size_t i = 0; i < spec.num_layers(); ++i) {
    if (slot.discards && is_recomputed(layers.recompute, i)) {
      lay_out_kept(layers, scratch, i > 0 || owns_input, arena, slot);
      continue;
    }
    BlockActivations block = layers.block.lay_out_activations(arena, scratch.block);
    if (i > 0 || owns_input) block.attention.x = layers.block.lay_out_input(arena);
    slot.blocks.push_back(block);
  }
  if (spec.head) {
    slot.head = layers.head->lay_out_activations(arena, scratch.head);
    if (owns_input || !slot.blocks.empty()) slot.head.x = layers.block.lay_out_input(arena);
  }
  return slot;
}

DeferredSlot lay_out_deferred(const ChunkSpec& spec, const Layers& layers, const Scratch& scratch,
                              Arena& arena) {
  DeferredSlot slot{.again = scratch.again.of_deferred(spec, layers, arena)};
  for (std::size_t i = 0; i < spec.num_layers(); ++i) {
    slot.blocks.push_back(layers.block.lay_out_deferred(arena));
  }
  if (spec.head)
    slot.head = layers.head->lay_out_deferred(arena);
  else if (gathers_edges(layers.sharding))
    slot.output_gradient = layers.block.lay_out_input(arena);
  return slot;
}

/// One block's memory serves all chunks, because a backward with weights is over before the next
/// begins.
void lay_out_immediate(std::span<const ChunkSpec> chunks, const Layers& layers,
                       const Scratch& scratch, Arena& arena, std::vector<ChunkActivations>& out) {
  const BlockDeferred block = layers.block.lay_out_deferred(arena);
  HeadDeferred head;
  if (layers.head) head = layers.head->lay_out_deferred(arena);
  tensor::Tensor output_gradient;
  if (gathers_edges(layers.sharding)) output_gradient = layers.block.lay_out_input(arena);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    out[c].immediate = {.blocks = std::vector(chunks[c].num_layers(), block),
                        .head = head,
                        .again = scratch.again.of_chunk(chunks[c]),
                        .output_gradient = output_gradient};
  }
}

void lay_out_evaluation(std::span<const ChunkSpec> chunks, const Layers& layers,
                        const Scratch& scratch, Arena& arena, std::vector<ChunkActivations>& out) {
  ChunkSlot shared = shared_slot(scratch);
  lay_out_embedding(layers, arena, shared);
  shared.documents = layers.block.lay_out_documents(arena);
  BlockActivations block = layers.block.lay_out_activations(
      arena, {.forward = scratch.block.forward, .routed_forward = scratch.block.routed_forward});
  block.attention.x = layers.block.lay_out_input(arena);
  HeadActivations head;
  if (layers.head) head = layers.head->lay_out_evaluation(arena, scratch.head);
  head.x = block.attention.x;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    ChunkSlot& slot = out[c].evaluation;
    slot.embedding = shared.embedding;
    slot.documents = shared.documents;
    slot.forward_tokens = shared.forward_tokens;
    slot.whole_output = shared.whole_output;
    slot.blocks.assign(chunks[c].num_layers(), block);
    slot.row_counts.assign(chunks[c].num_layers(), layers.block.row_counts());
    slot.head = head;
  }
}

void lay_out_loads(const ChunkSpec& spec, const Layers& layers, Arena& arena,
                   ChunkActivations& out) {
  const auto begin = layers.routed.begin() + spec.first_layer;
  const auto end = layers.routed.begin() + spec.end_layer;
  const std::int64_t count = std::count(begin, end, 1), size = layers.block.load_size();
  if (count > 0) out.all_loads = arena.take(tensor::DType::f32, {count, size});
  std::int64_t row = 0;
  for (auto routed = begin; routed != end; ++routed) {
    tensor::Tensor& load = out.loads.emplace_back();
    if (*routed && out.all_loads) {
      load = tensor::row_view(out.all_loads, row++, 1);
      load.shape = {size};
    }
  }
}

const SublayerCore& attention_of(const DecoderBlock& block) {
  return block[Branch::attention].core();
}

tensor::ScratchBytes bytes_of_products(const Layers& layers) {
  const tensor::ScratchBytes block = layers.block.products().scratch_bytes();
  return layers.head ? larger(block, layers.head->product_scratch_bytes()) : block;
}

/// Lays out the scratch memory of forwards and evaluate().
void lay_out_forward_scratch(const Layers& layers, Arena& arena, Scratch& out) {
  const std::size_t attention = attention_of(layers.block).scratch_bytes().forward;
  out.attention.forward = arena.take_bytes(attention);
  // Holds tables, over which evaluate() must not write.
  if (discarded_by(layers.recompute.mode).core) out.attention_again = arena.take_bytes(attention);
  out.products.forward = arena.take_bytes(bytes_of_products(layers).forward);
  if (layers.head) out.head = layers.head->lay_out_scratch(arena);
  out.block.forward = layers.block.lay_out_gathered(arena);
  out.block.routed_forward = layers.block.lay_out_routed(arena);
  out.head.forward = out.block.forward;
  if (gathers_edges(layers.sharding)) out.output = layers.block.lay_out_input(arena);
}

/// Lays out the scratch memory of backwards. Products that are computed again work in that of the
/// gradients' products.
void lay_out_backward_scratch(std::span<const ChunkSpec> chunks, const Layers& layers, Arena& arena,
                              Scratch& out) {
  std::size_t products = bytes_of_products(layers).backward;
  if (discarded_by(layers.recompute.mode).sums)
    products = std::max(products, layers.block.products().scratch_bytes().forward);
  out.attention.backward = arena.take_bytes(attention_of(layers.block).scratch_bytes().backward);
  out.products.backward = arena.take_bytes(products);
  layers.block.lay_out_backward_scratch(arena, out.block);
  if (layers.head) layers.head->lay_out_backward_scratch(arena, out.head);
  out.again = RecomputedGroup(chunks, layers, out.block, arena);
  out.head.backward = out.block.backward;
  out.head.gathered_dx = out.block.gathered_dnorm;
}

void give_scratch(const Layers& layers, const Scratch& scratch) {
  if (!scratch.attention.forward) return;  // the arena only counts
  attention_of(layers.block).set_scratch(scratch.attention);
  layers.block.products().set_scratch(scratch.products);
  if (scratch.attention_again)
    attention_of(*layers.recompute_block).set_scratch({.forward = scratch.attention_again});
  if (layers.recompute_block)
    layers.recompute_block->products().set_scratch({.forward = scratch.products.backward});
  if (layers.head) layers.head->set_product_scratch(scratch.products);
}

}  // namespace

std::vector<ChunkActivations> lay_out_activations(std::span<const ChunkSpec> chunks,
                                                  const Layers& layers, bool training,
                                                  Arena& arena) {
  std::vector<ChunkActivations> out(chunks.size());
  Scratch scratch;
  lay_out_forward_scratch(layers, arena, scratch);
  const auto of_backwards = [&] {
    if (!training) return;
    lay_out_backward_scratch(chunks, layers, arena, scratch);
    lay_out_immediate(chunks, layers, scratch, arena, out);
  };
  const auto of_evaluation = [&] { lay_out_evaluation(chunks, layers, scratch, arena, out); };
  arena.overlay(of_backwards, of_evaluation);
  give_scratch(layers, scratch);
  if (!training) return out;
  const auto discarded = lay_out_discarded(chunks, layers, scratch.block, arena);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    out[c].discarded = discarded[c];
    lay_out_loads(chunks[c], layers, arena, out[c]);
    for (int i = 0; i < chunks[c].live; ++i) {
      out[c].slots.push_back(lay_out_slot(chunks[c], i, layers, scratch, arena));
    }
    for (int i = 0; i < chunks[c].deferred; ++i) {
      out[c].deferred.push_back(lay_out_deferred(chunks[c], layers, scratch, arena));
    }
  }
  return out;
}

}  // namespace troupe::stages
