#include "stages/decoder/layers/decoder_block.h"

#include <algorithm>

namespace troupe::stages {

using tensor::Tensor;

DecoderBlock::DecoderBlock(const LayerSpec& spec, tensor::Device& device, const Streams& streams)
    : shape_(spec),
      has_documents_(spec.documents != Documents::joined),
      drops_(spec.model.hidden_dropout > 0),
      sublayers_{Sublayer(spec, device, streams, make_attention_core(spec, device)),
                 Sublayer(spec, device, streams, make_activation_core(spec, device))} {}

PackedBlock DecoderBlock::lay_out_packed(Arena& arena) const {
  return {.attention = sublayers_.attention.products().lay_out_packed(arena),
          .feed_forward = sublayers_.feed_forward.products().lay_out_packed(arena)};
}

GatheredTokens DecoderBlock::lay_out_gathered(Arena& arena) const {
  if (shape_.S == shape_.T) return {};
  return {.input = arena.take(shape_.dtype, {shape_.T, shape_.C}),
          .output = arena.take(shape_.dtype, {shape_.T, shape_.C})};
}

void DecoderBlock::lay_out_backward_scratch(Arena& arena, SublayerScratch& out) const {
  out.backward = lay_out_gathered(arena);
  out.dhidden = arena.take(shape_.dtype, {shape_.T, std::max(shape_.A, shape_.F)});
  out.dnorm = lay_out_input(arena);
  if (shape_.S != shape_.T) out.gathered_dnorm = arena.take(shape_.dtype, {shape_.T, shape_.C});
  if (drops_) out.dropped = lay_out_input(arena);
}

tensor::ScratchBytes DecoderBlock::product_scratch_bytes() const {
  const auto attention = sublayers_.attention.products().scratch_bytes();
  const auto feed_forward = sublayers_.feed_forward.products().scratch_bytes();
  return {.forward = std::max(attention.forward, feed_forward.forward),
          .backward = std::max(attention.backward, feed_forward.backward)};
}

void DecoderBlock::set_product_scratch(const tensor::Scratch& scratch) const {
  sublayers_.attention.products().set_scratch(scratch);
  sublayers_.feed_forward.products().set_scratch(scratch);
}

tensor::ScratchBytes DecoderBlock::attention_scratch_bytes() const {
  return sublayers_.attention.core().scratch_bytes();
}

void DecoderBlock::set_attention_scratch(const tensor::Scratch& scratch) const {
  sublayers_.attention.core().set_scratch(scratch);
}

Tensor DecoderBlock::lay_out_input(Arena& arena) const {
  return arena.take(shape_.dtype, {shape_.S, shape_.C});
}

Tensor DecoderBlock::lay_out_input_part(Arena& arena, int parts) const {
  return arena.take(shape_.dtype, {shape_.S * shape_.C / parts});
}

Tensor DecoderBlock::lay_out_documents(Arena& arena) const {
  return has_documents_ ? arena.take(tensor::DType::i32, {shape_.T + 1}) : Tensor{};
}

BlockActivations DecoderBlock::lay_out_activations(Arena& arena, const SublayerScratch& scratch,
                                                   const ActivationGroups& groups) const {
  BlockActivations kept = without_memory(scratch);
  sublayers_.attention.lay_out(arena, groups, kept.attention);
  sublayers_.feed_forward.lay_out(arena, groups, kept.feed_forward);
  if (!groups.sums) return kept;
  kept.feed_forward.x = lay_out_input(arena);
  arena.overlay([&] { kept.attention.inner = sublayers_.attention.lay_out_inner(arena); },
                [&] { kept.feed_forward.inner = sublayers_.feed_forward.lay_out_inner(arena); });
  return kept;
}

BlockDeferred DecoderBlock::lay_out_deferred(Arena& arena) const {
  BlockDeferred deferred{.attention = sublayers_.attention.lay_out_deferred(arena),
                         .feed_forward = sublayers_.feed_forward.lay_out_deferred(arena)};
  deferred.feed_forward.dx = lay_out_input(arena);
  return deferred;
}

void DecoderBlock::pack(tensor::Stream& stream, const BlockWeights& weights) const {
  sublayers_.attention.products().pack(stream, weights.attention);
  sublayers_.feed_forward.products().pack(stream, weights.feed_forward);
}

void DecoderBlock::add_packed_copies(const BlockWeights& weights,
                                     std::vector<PackedCopy>& out) const {
  for (const Branch branch : {Branch::attention, Branch::feed_forward})
    for (const PackedCopy& matrix : sublayers_[branch].products().packed_copies(weights[branch]))
      out.push_back(matrix);
}

}  // namespace troupe::stages
