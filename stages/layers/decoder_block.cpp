#include "stages/layers/decoder_block.h"

#include <algorithm>

#include "stages/layers/gradient.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

tensor::LinearShape linear(const LayerShape& shape, std::int64_t in, std::int64_t out) {
  return {.rows = shape.T, .in = in, .out = out, .dtype = shape.dtype, .output_dtype = shape.dtype};
}

tensor::AttentionShape attention(const LayerSpec& spec) {
  const ModelConfig& model = spec.model;
  return {.batch = spec.micro,
          .seq_len = spec.seq_len,
          .heads = model.num_attention_heads,
          .kv_heads = model.num_key_value_heads,
          .head_dim = model.head_dim,
          .rope_theta = model.rope_theta,
          .dtype = model.dtype};
}

}  // namespace

DecoderBlock::DecoderBlock(const LayerSpec& spec, tensor::Device& device, const Streams& streams)
    : shape_(spec),
      eps_(static_cast<float>(spec.model.rms_norm_eps)),
      ops_(device.ops()),
      streams_(streams),
      qkv_(device.make_linear(linear(shape_, shape_.C, shape_.Q))),
      o_(device.make_linear(linear(shape_, shape_.A, shape_.C))),
      gate_up_(device.make_linear(linear(shape_, shape_.C, 2 * shape_.F))),
      down_(device.make_linear(linear(shape_, shape_.F, shape_.C))),
      attention_(device.make_attention(attention(spec))),
      heads_(spec.model.num_attention_heads) {}

PackedBlock DecoderBlock::lay_out_packed(Arena& arena) const {
  return {.qkv = arena.take_bytes(qkv_->packed_bytes()),
          .o = arena.take_bytes(o_->packed_bytes()),
          .gate_up = arena.take_bytes(gate_up_->packed_bytes()),
          .down = arena.take_bytes(down_->packed_bytes())};
}

BlockScratch DecoderBlock::lay_out_scratch(Arena& arena) const {
  BlockScratch scratch;
  arena.overlay(
      [&] {
        scratch.dact = arena.take(shape_.dtype, {shape_.T, shape_.F});
      },
      [&] {
        scratch.dattn = arena.take(shape_.dtype, {shape_.T, shape_.A});
      });
  scratch.dnorm = arena.take(shape_.dtype, {shape_.T, shape_.C});
  return scratch;
}

tensor::ScratchBytes DecoderBlock::product_scratch_bytes() const {
  tensor::ScratchBytes most;
  for (const auto* linear : {&qkv_, &o_, &gate_up_, &down_}) {
    const auto [forward, backward] = (*linear)->scratch_bytes();
    most = {.forward = std::max(most.forward, forward),
            .backward = std::max(most.backward, backward)};
  }
  return most;
}

void DecoderBlock::set_product_scratch(const tensor::Scratch& scratch) const {
  for (const auto* linear : {&qkv_, &o_, &gate_up_, &down_}) (*linear)->set_scratch(scratch);
}

tensor::ScratchBytes DecoderBlock::attention_scratch_bytes() const {
  return attention_->scratch_bytes();
}

void DecoderBlock::set_attention_scratch(const tensor::Scratch& scratch) const {
  attention_->set_scratch(scratch);
}

Tensor DecoderBlock::lay_out_input(Arena& arena) const {
  return arena.take(shape_.dtype, {shape_.T, shape_.C});
}

BlockActivations DecoderBlock::lay_out_activations(Arena& arena,
                                                   const BlockScratch& scratch) const {
  const auto [T, C, A, Q, F, V, act] = shape_;
  BlockActivations kept = {.x = {},
                           .x_rstd = arena.take(DType::f32, {T}),
                           .input_norm = arena.take(act, {T, C}),
                           .qkv = {},
                           .saved = arena.take(act, {attention_->saved_elements()}),
                           .lse = arena.take(DType::f32, {T * heads_}),
                           .attn = arena.take(act, {T, A}),
                           .mid = arena.take(act, {T, C}),
                           .mid_rstd = arena.take(DType::f32, {T}),
                           .post_norm = arena.take(act, {T, C}),
                           .gate_up = {},
                           .act = arena.take(act, {T, F}),
                           .scratch = scratch};
  arena.overlay(
      [&] {
        kept.qkv = arena.take(act, {T, Q});
      },
      [&] {
        kept.gate_up = arena.take(act, {T, 2 * F});
      });
  return kept;
}

BlockDeferred DecoderBlock::lay_out_deferred(Arena& arena) const {
  return {.dmid = arena.take(shape_.dtype, {shape_.T, shape_.C}),
          .dqkv = arena.take(shape_.dtype, {shape_.T, shape_.Q}),
          .dinput_norm = arena.take(DType::f32, {shape_.C}),
          .dpost_norm = arena.take(DType::f32, {shape_.C})};
}

void DecoderBlock::pack(const BlockWeights& weights) const {
  qkv_->pack(streams_.backward(), weights.master.qkv, weights.packed.qkv);
  o_->pack(streams_.backward(), weights.master.o, weights.packed.o);
  gate_up_->pack(streams_.backward(), weights.master.gate_up, weights.packed.gate_up);
  down_->pack(streams_.backward(), weights.master.down, weights.packed.down);
}

void DecoderBlock::forward_input_norm(const BlockWeights& weights,
                                      const BlockActivations& kept) const {
  ops_.rms_norm(streams_.forward(), kept.x, weights.master.input_norm, eps_, kept.input_norm,
                kept.x_rstd);
}

void DecoderBlock::forward_attention(const BlockWeights& weights,
                                     const BlockActivations& kept) const {
  const PackedBlock& packed = weights.packed;
  qkv_->forward(streams_.forward(), kept.input_norm, packed.qkv, kept.qkv);
  attention_->forward(streams_.forward(), kept.qkv, kept.saved, kept.lse, kept.attn);
  o_->forward(streams_.forward(), kept.attn, packed.o, kept.mid, kept.x);
}

void DecoderBlock::forward_post_norm(const BlockWeights& weights,
                                     const BlockActivations& kept) const {
  ops_.rms_norm(streams_.forward(), kept.mid, weights.master.post_norm, eps_, kept.post_norm,
                kept.mid_rstd);
}

void DecoderBlock::forward_feed_forward(const BlockWeights& weights, const BlockActivations& kept,
                                        const Tensor& y) const {
  const PackedBlock& packed = weights.packed;
  gate_up_->forward(streams_.forward(), kept.post_norm, packed.gate_up, kept.gate_up);
  ops_.swiglu(streams_.forward(), kept.gate_up, kept.act);
  down_->forward(streams_.forward(), kept.act, packed.down, y, kept.mid);
}

void DecoderBlock::input_gradient_feed_forward(const BlockWeights& weights, const Tensor& dy,
                                               const BlockActivations& kept) const {
  const PackedBlock& packed = weights.packed;
  const BlockScratch& scratch = kept.scratch;
  down_->input_gradient(streams_.backward(), dy, packed.down, scratch.dact);
  ops_.swiglu_backward(streams_.backward(), kept.gate_up, scratch.dact, kept.gate_up);
  gate_up_->input_gradient(streams_.backward(), kept.gate_up, packed.gate_up, scratch.dnorm);
}

void DecoderBlock::input_gradient_post_norm(const BlockWeights& weights, const Tensor& dy,
                                            const BlockActivations& kept,
                                            const BlockDeferred& deferred) const {
  ops_.rms_norm_backward(streams_.backward(), kept.scratch.dnorm, kept.mid,
                         weights.master.post_norm, kept.mid_rstd, dy, deferred.dmid,
                         deferred.dpost_norm);
}

void DecoderBlock::input_gradient_attention(const BlockWeights& weights,
                                            const BlockActivations& kept,
                                            const BlockDeferred& deferred) const {
  const PackedBlock& packed = weights.packed;
  const BlockScratch& scratch = kept.scratch;
  o_->input_gradient(streams_.backward(), deferred.dmid, packed.o, scratch.dattn);
  attention_->backward(streams_.backward(), kept.saved, kept.lse, kept.attn, scratch.dattn,
                       deferred.dqkv);
  qkv_->input_gradient(streams_.backward(), deferred.dqkv, packed.qkv, scratch.dnorm);
}

void DecoderBlock::input_gradient_input_norm(const BlockWeights& weights,
                                             const BlockActivations& kept,
                                             const BlockDeferred& deferred,
                                             const Tensor& dx) const {
  ops_.rms_norm_backward(streams_.backward(), kept.scratch.dnorm, kept.x, weights.master.input_norm,
                         kept.x_rstd, deferred.dmid, dx, deferred.dinput_norm);
}

void DecoderBlock::weight_gradient_feed_forward(const Tensor& dy, const BlockActivations& kept,
                                                const BlockParameters& gradients,
                                                tensor::Gradient which) const {
  down_->weight_gradient(streams_.backward(), dy, kept.act, gradients.down, which);
  gate_up_->weight_gradient(streams_.backward(), kept.gate_up, kept.post_norm, gradients.gate_up,
                            which);
}

void DecoderBlock::weight_gradient_post_norm(const BlockDeferred& deferred,
                                             const BlockParameters& gradients,
                                             tensor::Gradient which) const {
  give_gradient(ops_, streams_.backward(), deferred.dpost_norm, gradients.post_norm, which);
}

void DecoderBlock::weight_gradient_attention(const BlockActivations& kept,
                                             const BlockDeferred& deferred,
                                             const BlockParameters& gradients,
                                             tensor::Gradient which) const {
  o_->weight_gradient(streams_.backward(), deferred.dmid, kept.attn, gradients.o, which);
  qkv_->weight_gradient(streams_.backward(), deferred.dqkv, kept.input_norm, gradients.qkv, which);
}

void DecoderBlock::weight_gradient_input_norm(const BlockDeferred& deferred,
                                              const BlockParameters& gradients,
                                              tensor::Gradient which) const {
  give_gradient(ops_, streams_.backward(), deferred.dinput_norm, gradients.input_norm, which);
}

}  // namespace troupe::stages
