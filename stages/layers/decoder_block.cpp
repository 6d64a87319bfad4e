#include "stages/layers/decoder_block.h"

#include <algorithm>

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

DecoderBlock::DecoderBlock(const LayerSpec& spec, tensor::Device& device, tensor::Stream& stream)
    : shape_(spec),
      eps_(static_cast<float>(spec.model.rms_norm_eps)),
      ops_(device.ops()),
      stream_(stream),
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
  const std::size_t start = arena.position();
  std::size_t end = start;
  const auto take = [&](std::int64_t columns) {
    arena.rewind(start);
    const Tensor tensor = arena.take(shape_.dtype, {shape_.T, columns});
    end = std::max(end, arena.position());
    return tensor;
  };
  BlockScratch scratch = {
      .qkv = take(shape_.Q), .dact = take(shape_.F), .dattn = take(shape_.A), .dnorm = {}};
  arena.rewind(end);
  scratch.dnorm = arena.take(shape_.dtype, {shape_.T, shape_.C});
  return scratch;
}

std::size_t DecoderBlock::product_scratch_bytes() const {
  return std::max({qkv_->scratch_bytes(), o_->scratch_bytes(), gate_up_->scratch_bytes(),
                   down_->scratch_bytes()});
}

void DecoderBlock::set_product_scratch(void* scratch) const {
  for (const auto* linear : {&qkv_, &o_, &gate_up_, &down_}) (*linear)->set_scratch(scratch);
}

void DecoderBlock::lay_out_attention(Arena& arena) const {
  void* const scratch = arena.take_bytes(attention_->scratch_bytes());
  if (scratch) attention_->set_scratch(scratch);
}

Tensor DecoderBlock::lay_out_input(Arena& arena) const {
  return arena.take(shape_.dtype, {shape_.T, shape_.C});
}

BlockActivations DecoderBlock::lay_out_activations(Arena& arena,
                                                   const BlockScratch& scratch) const {
  const auto [T, C, A, Q, F, V, act] = shape_;
  return {.x = {},
          .x_rstd = arena.take(DType::f32, {T}),
          .input_norm = arena.take(act, {T, C}),
          .saved = arena.take(act, {attention_->saved_elements()}),
          .lse = arena.take(DType::f32, {T * heads_}),
          .attn = arena.take(act, {T, A}),
          .mid = arena.take(act, {T, C}),
          .mid_rstd = arena.take(DType::f32, {T}),
          .post_norm = arena.take(act, {T, C}),
          .gate_up = arena.take(act, {T, 2 * F}),
          .act = arena.take(act, {T, F}),
          .scratch = scratch};
}

BlockDeferred DecoderBlock::lay_out_deferred(Arena& arena) const {
  return {.dmid = arena.take(shape_.dtype, {shape_.T, shape_.C}),
          .dqkv = arena.take(shape_.dtype, {shape_.T, shape_.Q}),
          .dinput_norm = arena.take(DType::f32, {shape_.C}),
          .dpost_norm = arena.take(DType::f32, {shape_.C})};
}

void DecoderBlock::pack(const BlockWeights& weights) const {
  qkv_->pack(stream_, weights.master.qkv, weights.packed.qkv);
  o_->pack(stream_, weights.master.o, weights.packed.o);
  gate_up_->pack(stream_, weights.master.gate_up, weights.packed.gate_up);
  down_->pack(stream_, weights.master.down, weights.packed.down);
}

void DecoderBlock::forward_input_norm(const BlockWeights& weights,
                                      const BlockActivations& kept) const {
  ops_.rms_norm(stream_, kept.x, weights.master.input_norm, eps_, kept.input_norm, kept.x_rstd);
}

void DecoderBlock::forward_attention(const BlockWeights& weights,
                                     const BlockActivations& kept) const {
  const PackedBlock& packed = weights.packed;
  const BlockScratch& scratch = kept.scratch;
  qkv_->forward(stream_, kept.input_norm, packed.qkv, scratch.qkv);
  attention_->forward(stream_, scratch.qkv, kept.saved, kept.lse, kept.attn);
  o_->forward(stream_, kept.attn, packed.o, kept.mid, kept.x);
}

void DecoderBlock::forward_post_norm(const BlockWeights& weights,
                                     const BlockActivations& kept) const {
  ops_.rms_norm(stream_, kept.mid, weights.master.post_norm, eps_, kept.post_norm, kept.mid_rstd);
}

void DecoderBlock::forward_feed_forward(const BlockWeights& weights, const BlockActivations& kept,
                                        const Tensor& y) const {
  const PackedBlock& packed = weights.packed;
  gate_up_->forward(stream_, kept.post_norm, packed.gate_up, kept.gate_up);
  ops_.swiglu(stream_, kept.gate_up, kept.act);
  down_->forward(stream_, kept.act, packed.down, y, kept.mid);
}

void DecoderBlock::input_gradient_feed_forward(const BlockWeights& weights, const Tensor& dy,
                                               const BlockActivations& kept) const {
  const PackedBlock& packed = weights.packed;
  const BlockScratch& scratch = kept.scratch;
  down_->input_gradient(stream_, dy, packed.down, scratch.dact);
  ops_.swiglu_backward(stream_, kept.gate_up, scratch.dact, kept.gate_up);
  gate_up_->input_gradient(stream_, kept.gate_up, packed.gate_up, scratch.dnorm);
}

void DecoderBlock::input_gradient_post_norm(const BlockWeights& weights, const Tensor& dy,
                                            const BlockActivations& kept,
                                            const BlockDeferred& deferred) const {
  ops_.rms_norm_backward(stream_, kept.scratch.dnorm, kept.mid, weights.master.post_norm,
                         kept.mid_rstd, dy, deferred.dmid, deferred.dpost_norm);
}

void DecoderBlock::input_gradient_attention(const BlockWeights& weights,
                                            const BlockActivations& kept,
                                            const BlockDeferred& deferred) const {
  const PackedBlock& packed = weights.packed;
  const BlockScratch& scratch = kept.scratch;
  o_->input_gradient(stream_, deferred.dmid, packed.o, scratch.dattn);
  attention_->backward(stream_, kept.saved, kept.lse, kept.attn, scratch.dattn, deferred.dqkv);
  qkv_->input_gradient(stream_, deferred.dqkv, packed.qkv, scratch.dnorm);
}

void DecoderBlock::input_gradient_input_norm(const BlockWeights& weights,
                                             const BlockActivations& kept,
                                             const BlockDeferred& deferred,
                                             const Tensor& dx) const {
  ops_.rms_norm_backward(stream_, kept.scratch.dnorm, kept.x, weights.master.input_norm,
                         kept.x_rstd, deferred.dmid, dx, deferred.dinput_norm);
}

void DecoderBlock::weight_gradient_feed_forward(const Tensor& dy, const BlockActivations& kept,
                                                const BlockParameters& gradients) const {
  down_->weight_gradient(stream_, dy, kept.act, gradients.down);
  gate_up_->weight_gradient(stream_, kept.gate_up, kept.post_norm, gradients.gate_up);
}

void DecoderBlock::weight_gradient_post_norm(const BlockDeferred& deferred,
                                             const BlockParameters& gradients) const {
  ops_.accumulate(stream_, deferred.dpost_norm, gradients.post_norm);
}

void DecoderBlock::weight_gradient_attention(const BlockActivations& kept,
                                             const BlockDeferred& deferred,
                                             const BlockParameters& gradients) const {
  o_->weight_gradient(stream_, deferred.dmid, kept.attn, gradients.o);
  qkv_->weight_gradient(stream_, deferred.dqkv, kept.input_norm, gradients.qkv);
}

void DecoderBlock::weight_gradient_input_norm(const BlockDeferred& deferred,
                                              const BlockParameters& gradients) const {
  ops_.accumulate(stream_, deferred.dinput_norm, gradients.input_norm);
}

}  // namespace troupe::stages
