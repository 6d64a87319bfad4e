#include "stages/decoder/layers/decoder_block.h"

#include <algorithm>

namespace troupe::stages {

using tensor::Tensor;

namespace {

tensor::LinearShape products_of(const LayerSpec& spec) {
  const auto [rows, row_step] = spec.rows();
  return {.rows = rows,
          .dtype = spec.model.dtype,
          .output_dtype = spec.model.dtype,
          .row_step = row_step};
}

}  // namespace

DecoderBlock::DecoderBlock(const LayerSpec& spec, tensor::Device& device, const Streams& streams)
    : shape_(spec),
      has_documents_(spec.documents != Documents::joined),
      drops_(spec.model.hidden_dropout > 0 || embedding_scale(spec.model) != 1),
      sums_heads_(sublayer_form(spec.model, spec.parallel.size).sums_heads),
      products_(spec, device, products_of(spec)),
      sublayers_{
          Sublayer(spec, device, streams, products_.attention, make_attention_core(spec, device)),
          Sublayer(spec, device, streams, products_.feed_forward,
                   make_activation_core(spec, device))} {}

GatheredTokens DecoderBlock::lay_out_gathered(Arena& arena) const {
  if (shape_.S == shape_.T) return {};
  return {.input = arena.take(shape_.dtype, {shape_.T, shape_.C}),
          .output = arena.take(shape_.dtype, {shape_.T, shape_.C})};
}

RoutedScratch DecoderBlock::lay_out_routed(Arena& arena) const {
  const RoutedExperts* const routed = products_.feed_forward.routed.get();
  return routed ? routed->lay_out_scratch(arena) : RoutedScratch{};
}

void DecoderBlock::lay_out_backward_scratch(Arena& arena, SublayerScratch& out) const {
  out.backward = lay_out_gathered(arena);
  const RoutedExperts* const routed = products_.feed_forward.routed.get();
  arena.overlay(
      [&] {
        out.dhidden = arena.take(shape_.dtype, {shape_.T, std::max(shape_.A, shape_.F)});
      },
      [&] {
        if (routed) out.routed_backward = routed->lay_out_backward_scratch(arena);
      });
  out.dnorm = lay_out_input(arena);
  if (shape_.S != shape_.T) out.gathered_dnorm = arena.take(shape_.dtype, {shape_.T, shape_.C});
  if (drops_) out.dropped = lay_out_input(arena);
  if (sums_heads_) out.head_dots = arena.take(tensor::DType::f32, {2 * shape_.T});
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

Tensor DecoderBlock::lay_out_counted(Arena& arena) const {
  if (!has_documents_ || !products_.feed_forward.routed) return {};
  return arena.take(tensor::DType::i32, {shape_.T});
}

RowCounts DecoderBlock::row_counts() const {
  const RoutedExperts* const routed = products_.feed_forward.routed.get();
  return routed ? routed->make_counts() : RowCounts{};
}

std::int64_t DecoderBlock::load_size() const {
  const RoutedExperts* const routed = products_.feed_forward.routed.get();
  return routed ? routed->load_size() : 0;
}

BlockActivations DecoderBlock::lay_out_activations(Arena& arena, const SublayerScratch& scratch,
                                                   const ActivationGroups& groups) const {
  BlockActivations kept = without_memory(scratch);
  sublayers_.attention.lay_out(arena, groups, kept.attention);
  sublayers_.feed_forward.lay_out(arena, groups, kept.feed_forward);
  if (!groups.sums) return kept;
  kept.feed_forward.x = lay_out_input(arena);
  arena.overlay([&] { kept.attention.inner = sublayers_.attention.lay_out_inner(arena); },
                [&] { lay_out_feed_forward_inner(arena, kept.feed_forward); });
  return kept;
}

/// A layer has experts, or not.
void DecoderBlock::lay_out_feed_forward_inner(Arena& arena, SublayerActivations& kept) const {
  const RoutedExperts* const routed = products_.feed_forward.routed.get();
  arena.overlay([&] { kept.inner = sublayers_.feed_forward.lay_out_inner(arena); },
                [&] {
                  if (routed) kept.routed.inner = routed->lay_out_inner(arena);
                });
}

BlockDeferred DecoderBlock::lay_out_deferred(Arena& arena) const {
  BlockDeferred deferred{.attention = sublayers_.attention.lay_out_deferred(arena),
                         .feed_forward = sublayers_.feed_forward.lay_out_deferred(arena)};
  deferred.feed_forward.dx = lay_out_input(arena);
  return deferred;
}

}  // namespace troupe::stages
