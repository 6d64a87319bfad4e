#include "stages/layers/decoder_block.h"

#include <algorithm>

#include "tensor/error.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

/// A layer before it is divided, by what one shard has of its divided dim.
template <typename ParallelLinear>
std::unique_ptr<ParallelLinear> linear(tensor::Device& device, const LayerSpec& spec,
                                       std::int64_t in, std::int64_t out) {
  const auto [rows, row_step] = spec.rows();
  const tensor::LinearShape whole{.rows = rows,
                                  .in = in,
                                  .out = out,
                                  .dtype = spec.model.dtype,
                                  .output_dtype = spec.model.dtype,
                                  .row_step = row_step};
  return std::make_unique<ParallelLinear>(device, whole, spec.parallel);
}

tensor::AttentionShape attention(const LayerSpec& spec) {
  const ModelConfig& model = spec.model;
  const LayerShape shape(spec);
  const bool documents = spec.documents != Documents::joined;
  return {.batch = documents ? (shape.T + spec.seq_len - 1) / spec.seq_len : spec.micro,
          .seq_len = spec.seq_len,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = model.head_dim,
          .dtype = model.dtype,
          .rotary = rotary_of(model),
          .documents = documents,
          .first_head = spec.parallel.shard * shape.heads};
}

}  // namespace

ActivationGroups discarded_by(Recompute::Mode mode) {
  switch (mode) {
    case Recompute::Mode::none:
      return {};
    case Recompute::Mode::selective:
      return {.core = true};
    case Recompute::Mode::output:
      return {.outputs = true};
    case Recompute::Mode::full:
      return kAllActivations;
  }
  assert_failed("mode is a Mode", __FILE__, __LINE__);
}

ActivationGroups kept_by(Recompute::Mode mode) {
  const auto [core, outputs, sums, inputs] = discarded_by(mode);
  return {.core = !core, .outputs = !outputs, .sums = !sums, .inputs = !inputs};
}

void move_activations(const BlockActivations& memory, BlockActivations& activations) {
  const auto move = [](const Tensor& to, Tensor& tensor) {
    if (to) tensor = to;
  };
  using A = BlockActivations;
  for (Tensor A::*tensor : {&A::x, &A::input_norm, &A::qkv, &A::saved, &A::lse, &A::attn, &A::mid,
                            &A::post_norm, &A::gate_up, &A::act})
    move(memory.*tensor, activations.*tensor);
  for (NormStatistics A::*statistics : {&A::x_statistics, &A::mid_statistics}) {
    move((memory.*statistics).mean, (activations.*statistics).mean);
    move((memory.*statistics).rstd, (activations.*statistics).rstd);
  }
  activations.scratch = memory.scratch;
}

DecoderBlock::DecoderBlock(const LayerSpec& spec, tensor::Device& device, const Streams& streams)
    : shape_(spec),
      has_documents_(spec.documents != Documents::joined),
      is_divided_(spec.parallel.size > 1),
      drops_(spec.model.hidden_dropout > 0),
      ops_(device.ops()),
      streams_(streams),
      norm_(make_norm(spec, device)),
      activation_(make_activation(spec, device)),
      attention_(device.make_attention(attention(spec))) {
  using Column = tensor::ColumnParallelLinear;
  using Row = tensor::RowParallelLinear;
  const std::int64_t shards = spec.parallel.size;
  qkv_ = linear<Column>(device, spec, shape_.C, shards * shape_.Q);
  o_ = linear<Row>(device, spec, shards * shape_.A, shape_.C);
  gate_up_ = linear<Column>(device, spec, shape_.C, shards * shape_.H);
  down_ = linear<Row>(device, spec, shards * shape_.F, shape_.C);
}

tensor::ColumnParallelLinear& DecoderBlock::first_of(Branch branch) const {
  return branch == Branch::attention ? *qkv_ : *gate_up_;
}

tensor::RowParallelLinear& DecoderBlock::last_of(Branch branch) const {
  return branch == Branch::attention ? *o_ : *down_;
}

const HiddenDropout& DecoderBlock::dropout_of(Branch branch, const BlockActivations& kept) {
  return branch == Branch::attention ? kept.dropout.attention : kept.dropout.feed_forward;
}

PackedBlock DecoderBlock::lay_out_packed(Arena& arena) const {
  return {.qkv = arena.take_bytes(qkv_->packed_bytes()),
          .o = arena.take_bytes(o_->packed_bytes()),
          .gate_up = arena.take_bytes(gate_up_->packed_bytes()),
          .down = arena.take_bytes(down_->packed_bytes())};
}

GatheredTokens DecoderBlock::lay_out_gathered(Arena& arena) const {
  if (shape_.S == shape_.T) return {};
  return {.input = arena.take(shape_.dtype, {shape_.T, shape_.C}),
          .output = arena.take(shape_.dtype, {shape_.T, shape_.C})};
}

void DecoderBlock::lay_out_backward_scratch(Arena& arena, BlockScratch& out) const {
  out.backward = lay_out_gathered(arena);
  arena.overlay(
      [&] {
        out.dact = arena.take(shape_.dtype, {shape_.T, shape_.F});
      },
      [&] {
        out.dattn = arena.take(shape_.dtype, {shape_.T, shape_.A});
      });
  out.dnorm = arena.take(shape_.dtype, {shape_.S, shape_.C});
  if (shape_.S != shape_.T) out.gathered_dnorm = arena.take(shape_.dtype, {shape_.T, shape_.C});
  if (drops_) out.dropped = arena.take(shape_.dtype, {shape_.S, shape_.C});
}

tensor::ScratchBytes DecoderBlock::product_scratch_bytes() const {
  tensor::ScratchBytes most;
  for (const auto& [forward, backward] : {qkv_->scratch_bytes(), o_->scratch_bytes(),
                                          gate_up_->scratch_bytes(), down_->scratch_bytes()})
    most = {.forward = std::max(most.forward, forward),
            .backward = std::max(most.backward, backward)};
  return most;
}

void DecoderBlock::set_product_scratch(const tensor::Scratch& scratch) const {
  for (const Branch branch : {Branch::attention, Branch::feed_forward}) {
    first_of(branch).set_scratch(scratch);
    last_of(branch).set_scratch(scratch);
  }
}

tensor::ScratchBytes DecoderBlock::attention_scratch_bytes() const {
  return attention_->scratch_bytes();
}

void DecoderBlock::set_attention_scratch(const tensor::Scratch& scratch) const {
  attention_->set_scratch(scratch);
}

Tensor DecoderBlock::lay_out_input(Arena& arena) const {
  return arena.take(shape_.dtype, {shape_.S, shape_.C});
}

Tensor DecoderBlock::lay_out_documents(Arena& arena) const {
  return has_documents_ ? arena.take(DType::i32, {shape_.T + 1}) : Tensor{};
}

Tensor DecoderBlock::lay_out_input_part(Arena& arena, int parts) const {
  return arena.take(shape_.dtype, {shape_.S * shape_.C / parts});
}

BlockActivations DecoderBlock::lay_out_activations(Arena& arena, const BlockScratch& scratch,
                                                   const ActivationGroups& groups) const {
  const auto [T, S, C, heads, kv_heads, A, Q, F, H, V, act] = shape_;
  BlockActivations kept = {.scratch = scratch};
  if (groups.inputs) {
    kept.x_statistics = norm_->lay_out_statistics(arena);
    kept.saved = arena.take(act, {attention_->saved_elements()});
    kept.mid_statistics = norm_->lay_out_statistics(arena);
  }
  if (groups.core) {
    kept.lse = arena.take(DType::f32, {T * heads});
    kept.attn = arena.take(act, {T, A});
  }
  if (groups.outputs) {
    kept.input_norm = arena.take(act, {S, C});
    kept.post_norm = arena.take(act, {S, C});
    kept.act = arena.take(act, {T, F});
  }
  if (!groups.sums) return kept;
  kept.mid = arena.take(act, {S, C});
  arena.overlay(
      [&] {
        kept.qkv = arena.take(act, {T, Q});
      },
      [&] {
        kept.gate_up = arena.take(act, {T, H});
      });
  return kept;
}

BlockDeferred DecoderBlock::lay_out_deferred(Arena& arena) const {
  return {.dmid = arena.take(shape_.dtype, {shape_.S, shape_.C}),
          .dqkv = arena.take(shape_.dtype, {shape_.T, shape_.Q}),
          .dinput_norm = norm_->lay_out_gradients(arena),
          .dpost_norm = norm_->lay_out_gradients(arena)};
}

void DecoderBlock::use_tokens(std::int64_t tokens, BlockActivations& kept) const {
  const std::int64_t own = shape_.own_tokens(tokens);
  for (Tensor* x : {&kept.x, &kept.input_norm, &kept.mid, &kept.post_norm, &kept.scratch.dnorm,
                    &kept.scratch.dropped})
    use_rows(*x, own);
  for (Tensor* x : {&kept.qkv, &kept.attn, &kept.gate_up, &kept.act, &kept.scratch.dact,
                    &kept.scratch.dattn, &kept.scratch.gathered_dnorm})
    use_rows(*x, tokens);
  use_rows(kept.x_statistics, own);
  use_rows(kept.mid_statistics, own);
  use_rows(kept.lse, tokens * shape_.heads);
  use_rows(kept.scratch.forward, tokens);
  use_rows(kept.scratch.backward, tokens);
}

void DecoderBlock::use_tokens(std::int64_t tokens, BlockDeferred& deferred) const {
  use_rows(deferred.dmid, shape_.own_tokens(tokens));
  use_rows(deferred.dqkv, tokens);
}

void DecoderBlock::pack(tensor::Stream& stream, const BlockWeights& weights) const {
  qkv_->pack(stream, weights.master.qkv.weight, weights.packed.qkv);
  o_->pack(stream, weights.master.o.weight, weights.packed.o);
  gate_up_->pack(stream, weights.master.gate_up.weight, weights.packed.gate_up);
  down_->pack(stream, weights.master.down.weight, weights.packed.down);
}

std::array<PackedCopy, 4> DecoderBlock::packed_copies(const BlockWeights& weights) const {
  const auto& [master, packed] = weights;
  return {PackedCopy{master.qkv.weight, qkv_->packed_copy(packed.qkv)},
          {master.o.weight, o_->packed_copy(packed.o)},
          {master.gate_up.weight, gate_up_->packed_copy(packed.gate_up)},
          {master.down.weight, down_->packed_copy(packed.down)}};
}

void DecoderBlock::forward_input_norm(const BlockWeights& weights,
                                      const BlockActivations& kept) const {
  norm_->forward(streams_.forward(), weights.master.input_norm, kept.x, kept.input_norm,
                 kept.x_statistics);
}

std::unique_ptr<tensor::Work> DecoderBlock::gather_input(Branch branch,
                                                         const BlockActivations& kept) const {
  const Tensor& norm = branch == Branch::attention ? kept.input_norm : kept.post_norm;
  return first_of(branch).gather_input(streams_.forward(), norm, kept.scratch.forward.input);
}

void DecoderBlock::forward_attention(const BlockWeights& weights,
                                     const BlockActivations& kept) const {
  tensor::Stream& stream = streams_.forward();
  const GatheredTokens& gathered = kept.scratch.forward;
  qkv_->product(stream, all_tokens(kept.input_norm, gathered.input), weights.packed.qkv,
                weights.master.qkv.bias, kept.qkv);
  attention_->forward(stream, kept.qkv, kept.saved, kept.lse, kept.attn,
                      kept.dropout.probabilities);
  o_->product(stream, kept.attn, weights.packed.o, all_tokens(kept.mid, gathered.output),
              fuses_residual(kept.dropout.attention) ? kept.x : Tensor{});
}

/// Whether a branch's last product adds the residual: nothing comes between the two.
bool DecoderBlock::fuses_residual(const HiddenDropout& dropout) const {
  return !is_divided_ && !dropout.drops();
}

/// y [S, C] is what the branch's last product left: y = dropout(y + bias) + residual, unless the
/// product has added the residual.
void DecoderBlock::bias_dropout_add(Branch branch, const Tensor& bias, const BlockActivations& kept,
                                    const Tensor& residual, const Tensor& y) const {
  tensor::Stream& stream = streams_.forward();
  const HiddenDropout& dropout = dropout_of(branch, kept);
  const bool adds_all = !dropout.drops() && !fuses_residual(dropout);
  last_of(branch).add_bias_and_residual(stream, bias, adds_all ? residual : Tensor{}, y);
  if (dropout.drops()) ops_.dropout(stream, dropout.dropout, dropout.tokens, y, y, residual);
}

void DecoderBlock::forward_post_norm(const BlockWeights& weights,
                                     const BlockActivations& kept) const {
  bias_dropout_add(Branch::attention, weights.master.o.bias, kept, kept.x, kept.mid);
  norm_->forward(streams_.forward(), weights.master.post_norm, kept.mid, kept.post_norm,
                 kept.mid_statistics);
}

void DecoderBlock::forward_act(const BlockWeights& weights, const BlockActivations& kept) const {
  tensor::Stream& stream = streams_.forward();
  gate_up_->product(stream, all_tokens(kept.post_norm, kept.scratch.forward.input),
                    weights.packed.gate_up, weights.master.gate_up.bias, kept.gate_up);
  activation_->forward(stream, kept.gate_up, kept.act);
}

void DecoderBlock::forward_feed_forward(const BlockWeights& weights, const BlockActivations& kept,
                                        const Tensor& y) const {
  forward_act(weights, kept);
  down_->product(streams_.forward(), kept.act, weights.packed.down,
                 all_tokens(y, kept.scratch.forward.output),
                 fuses_residual(kept.dropout.feed_forward) ? kept.mid : Tensor{});
  if (!is_divided_) finish_feed_forward(weights, kept, y);
}

std::unique_ptr<tensor::Work> DecoderBlock::reduce_output(Branch branch,
                                                          const BlockActivations& kept,
                                                          const Tensor& y) const {
  return last_of(branch).reduce_output(streams_.forward(),
                                       all_tokens(y, kept.scratch.forward.output), y);
}

void DecoderBlock::finish_feed_forward(const BlockWeights& weights, const BlockActivations& kept,
                                       const Tensor& y) const {
  bias_dropout_add(Branch::feed_forward, weights.master.down.bias, kept, kept.mid, y);
}

void DecoderBlock::recompute_core(const BlockActivations& kept) const {
  attention_->recompute(streams_.forward(), kept.saved, kept.lse, kept.attn,
                        kept.dropout.probabilities);
}

void DecoderBlock::recompute_outputs(Branch branch, const BlockWeights& weights,
                                     const BlockActivations& kept) const {
  tensor::Stream& stream = streams_.forward();
  if (branch == Branch::attention)
    return norm_->forward(stream, weights.master.input_norm, kept.x, kept.input_norm,
                          kept.x_statistics);
  norm_->forward(stream, weights.master.post_norm, kept.mid, kept.post_norm, kept.mid_statistics);
  activation_->forward(stream, kept.gate_up, kept.act);
}

}  // namespace troupe::stages
