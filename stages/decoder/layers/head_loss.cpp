#include "stages/decoder/layers/head_loss.h"

#include "stages/decoder/layers/embedding.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

HeadLoss::HeadLoss(const LayerSpec& spec, tensor::Device& device, const Streams& streams)
    : shape_(spec),
      outputs_(spec.model.value_head ? 1 : shape_.V),
      parallel_(spec.parallel),
      ops_(device.ops()),
      streams_(streams),
      norm_(spec.model, shape_.S, shape_.C, device) {
  const auto [rows, row_step] = spec.rows();
  const std::int64_t outputs = outputs_ * spec.parallel.size;
  const tensor::LinearShape whole{.rows = rows,
                                  .in = shape_.C,
                                  .out = outputs,
                                  .dtype = shape_.dtype,
                                  .output_dtype = DType::f32,
                                  .row_step = row_step};
  projection_ = std::make_unique<tensor::ColumnParallelLinear>(device, whole, spec.parallel);
  if (spec.model.value_head) return;
  loss_ = std::make_unique<tensor::VocabParallelCrossEntropy>(
      device,
      tensor::CrossEntropyShape{
          .tokens = shape_.T, .vocabulary = outputs, .classes = spec.model.vocab_size},
      spec.parallel);
}

void* HeadLoss::lay_out_packed(Arena& arena) const {
  return arena.take_bytes(projection_->packed_bytes());
}

HeadScratch HeadLoss::lay_out_scratch(Arena& arena) const {
  HeadScratch scratch;
  scratch.targets = arena.take(DType::i32, {shape_.T});
  scratch.logits = arena.take(DType::f32, {shape_.T, outputs_});
  if (loss_ && parallel_.size > 1)
    scratch.loss = {.max = arena.take(DType::f32, {shape_.T}),
                    .sums = arena.take(DType::f32, {loss_->sums_rows(), shape_.T})};
  return scratch;
}

HeadActivations HeadLoss::lay_out_activations(Arena& arena, const HeadScratch& scratch) const {
  HeadActivations kept = lay_out_evaluation(arena, scratch);
  kept.dlogits = arena.take(shape_.dtype, {shape_.T, outputs_});
  if (shape_.dtype == DType::f32) kept.logits = kept.dlogits;
  return kept;
}

HeadActivations HeadLoss::lay_out_evaluation(Arena& arena, const HeadScratch& scratch) const {
  return {.x = {},
          .statistics = norm_.lay_out_statistics(arena),
          .norm = arena.take(shape_.dtype, {shape_.S, shape_.C}),
          .dlogits = {},
          .logits = scratch.logits,
          .scratch = scratch};
}

HeadDeferred HeadLoss::lay_out_deferred(Arena& arena) const {
  return {.dx = arena.take(shape_.dtype, {shape_.S, shape_.C}),
          .dnorm = norm_.lay_out_gradients(arena)};
}

void HeadLoss::use_tokens(std::int64_t tokens, HeadActivations& kept) const {
  const std::int64_t own = shape_.own_tokens(tokens);
  use_rows(kept.x, own);
  use_rows(kept.statistics, own);
  use_rows(kept.norm, own);
  HeadScratch& scratch = kept.scratch;
  for (Tensor* x : {&kept.dlogits, &kept.logits, &scratch.targets, &scratch.logits,
                    &scratch.loss.max, &scratch.gathered_dx})
    use_rows(*x, tokens);
  if (scratch.loss.sums) scratch.loss.sums.shape = {loss_->sums_rows(), tokens};
  use_rows(scratch.forward, tokens);
  use_rows(scratch.backward, tokens);
}

void HeadLoss::use_tokens(std::int64_t tokens, HeadDeferred& deferred) const {
  use_rows(deferred.dx, shape_.own_tokens(tokens));
}

void HeadLoss::pack(tensor::Stream& stream, const HeadWeights& weights) const {
  projection_->pack(stream, weights.master.projection, weights.packed);
}

void HeadLoss::forward_norm(const HeadWeights& weights, const HeadActivations& kept) const {
  norm_.forward(streams_.forward(), weights.master.norm, kept.x, kept.norm, kept.statistics);
}

std::unique_ptr<tensor::Work> HeadLoss::gather_input(const HeadActivations& kept) const {
  return projection_->gather_input(streams_.forward(), kept.norm, kept.scratch.forward.input);
}

void HeadLoss::forward(const HeadWeights& weights, const HeadActivations& kept) const {
  projection_->product(streams_.forward(), all_tokens(kept.norm, kept.scratch.forward.input),
                       weights.packed, weights.master.bias, kept.logits);
  if (loss_ && parallel_.size > 1)
    loss_->local_max(streams_.forward(), kept.logits, kept.scratch.loss);
}

std::unique_ptr<tensor::Work> HeadLoss::reduce_max(const HeadActivations& kept) const {
  return loss_->reduce_max(streams_.forward(), kept.scratch.loss);
}

void HeadLoss::local_sums(std::span<const std::int32_t> targets,
                          const HeadActivations& kept) const {
  tensor::Stream& stream = streams_.forward();
  ops_.copy(stream, host_tokens(targets), kept.scratch.targets);
  loss_->local_sums(stream, kept.logits, kept.scratch.targets, kept.scratch.loss);
}

std::unique_ptr<tensor::Work> HeadLoss::reduce_sums(const HeadActivations& kept) const {
  return loss_->reduce_sums(streams_.forward(), kept.scratch.loss);
}

void HeadLoss::loss(std::span<const std::int32_t> targets, float scale, const HeadActivations& kept,
                    const Tensor& sum, const Tensor& token_losses) const {
  tensor::Stream& stream = streams_.forward();
  const HeadScratch& scratch = kept.scratch;
  // One shard needs no exchange between maximum, sums and loss: one op computes all.
  if (parallel_.size == 1) {
    ops_.copy(stream, host_tokens(targets), scratch.targets);
    return ops_.cross_entropy(stream, kept.logits, scratch.targets, scale, sum, kept.dlogits,
                              token_losses);
  }
  loss_->finish(stream, kept.logits, scratch.targets, scratch.loss, scale, sum, kept.dlogits,
                token_losses);
  if (parallel_.shard > 0) ops_.fill_zero(stream, sum);
}

void HeadLoss::input_gradient(const HeadWeights& weights, const HeadActivations& kept,
                              const HeadDeferred& deferred) const {
  projection_->input_gradient(streams_.backward(), kept.dlogits, weights.packed,
                              all_tokens(deferred.dx, kept.scratch.gathered_dx));
}

std::unique_ptr<tensor::Work> HeadLoss::reduce_gradient(const HeadActivations& kept,
                                                        const HeadDeferred& deferred) const {
  return projection_->reduce_input_gradient(
      streams_.backward(), all_tokens(deferred.dx, kept.scratch.gathered_dx), deferred.dx);
}

void HeadLoss::input_gradient_norm(const HeadWeights& weights, const HeadActivations& kept,
                                   const HeadDeferred& deferred) const {
  norm_.backward(streams_.backward(), weights.master.norm, deferred.dx, kept.x, kept.statistics, {},
                 deferred.dx, deferred.dnorm);
}

std::unique_ptr<tensor::Work> HeadLoss::gather_input_again(const HeadActivations& kept) const {
  return projection_->gather_input_again(streams_.backward(), kept.norm,
                                         kept.scratch.backward.input);
}

void HeadLoss::weight_gradient(const HeadActivations& kept, const HeadParameters& gradients,
                               tensor::Gradient which) const {
  projection_->weight_gradient(streams_.backward(), kept.dlogits,
                               all_tokens(kept.norm, kept.scratch.backward.input),
                               gradients.projection, {}, which);
}

void HeadLoss::weight_gradient_norm(const HeadDeferred& deferred, const HeadParameters& gradients,
                                    tensor::Gradient which) const {
  norm_.give_gradients(streams_.backward(), deferred.dnorm, gradients.norm, which);
}

}  // namespace troupe::stages
