#include "stages/decoder/layers/head_loss.h"

#include "stages/decoder/layers/embedding.h"
#include "stages/model/computation.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

HeadLoss::HeadLoss(const LayerSpec& spec, tensor::Device& device, const Streams& streams)
    : shape_(spec),
      outputs_(spec.model.value_head ? 1 : shape_.V),
      scale_(static_cast<float>(spec.model.value_head ? 1 : logit_scale(spec.model))),
      cap_(static_cast<float>(spec.model.value_head ? 0 : logit_cap(spec.model))),
      parts_(head_parts(spec.model, shape_.T, spec.parallel.size)),
      parallel_(spec.parallel),
      ops_(device.ops()),
      streams_(streams),
      norm_(spec.model, shape_.S, shape_.C, device) {
  const auto [rows, row_step] = spec.rows();
  const std::int64_t outputs = outputs_ * spec.parallel.size;
  tensor::LinearShape whole{.rows = parts_.are_divided ? parts_.block : rows,
                            .in = shape_.C,
                            .out = outputs,
                            .dtype = shape_.dtype,
                            .output_dtype = DType::f32,
                            .row_step = parts_.are_divided ? 0 : row_step};
  for (std::int64_t tokens = rows; tokens > 0; tokens -= row_step > 0 ? row_step : rows)
    parts_.add_row_counts(tokens, whole.other_rows);
  const auto make = [&] {
    return std::make_unique<tensor::ColumnParallelLinear>(device, whole, spec.parallel);
  };
  projection_ = make();
  if (parts_.are_divided) again_ = make();
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
  scratch.logits = arena.take(DType::f32, {parts_.rows, outputs_});
  scratch.loss = lay_out_sums(arena);
  scratch.capped = lay_out_capped(arena, parts_.rows);
  if (!parts_.are_divided) return scratch;
  scratch.losses = arena.take(DType::f64, {shape_.T});
  scratch.gradient = scratch.logits;
  if (shape_.dtype != DType::f32 || keeps_logits())
    scratch.gradient = arena.take(shape_.dtype, {parts_.rows, outputs_});
  scratch.unread = lay_out_unread(arena);
  return scratch;
}

void HeadLoss::lay_out_backward_scratch(Arena& arena, HeadScratch& scratch) const {
  if (!parts_.are_divided) return;
  scratch.block_gradient = arena.take(shape_.dtype, {parts_.block, outputs_});
  if (shape_.dtype != DType::f32 || keeps_logits())
    scratch.block_logits = arena.take(DType::f32, {parts_.rows, outputs_});
  scratch.capped_again = lay_out_capped(arena, parts_.rows);
  scratch.unread_again = lay_out_unread(arena);
}

Tensor HeadLoss::lay_out_capped(Arena& arena, std::int64_t rows) const {
  if (!keeps_logits() || parallel_.size == 1) return {};
  return arena.take(DType::f32, {rows, outputs_});
}

tensor::CrossEntropyScratch HeadLoss::lay_out_sums(Arena& arena) const {
  if (!loss_ || parallel_.size == 1) return {};
  return {.max = arena.take(DType::f32, {shape_.T}),
          .sums = parts_.are_divided ? arena.take(DType::f32, {loss_->sums_rows() * shape_.T})
                                     : arena.take(DType::f32, {loss_->sums_rows(), shape_.T})};
}

UnreadLoss HeadLoss::lay_out_unread(Arena& arena) const {
  UnreadLoss unread{.loss = arena.take(DType::f64, {1}), .sums = {}};
  if (parallel_.size > 1) unread.sums = arena.take(DType::f32, {loss_->sums_rows() * parts_.rows});
  return unread;
}

tensor::ScratchBytes HeadLoss::product_scratch_bytes() const {
  tensor::ScratchBytes bytes = projection_->scratch_bytes();
  if (!again_) return bytes;
  const auto [forward, backward] = again_->scratch_bytes();
  return {.forward = std::max(bytes.forward, backward),
          .backward = std::max(bytes.backward, forward)};
}

void HeadLoss::set_product_scratch(const tensor::Scratch& scratch) const {
  projection_->set_scratch(scratch);
  if (again_ && scratch.backward)
    again_->set_scratch({.forward = scratch.backward, .backward = scratch.forward});
}

HeadActivations HeadLoss::lay_out_activations(Arena& arena, const HeadScratch& scratch) const {
  HeadActivations kept = lay_out_evaluation(arena, scratch);
  if (parts_.are_divided) {
    kept.targets = arena.take(DType::i32, {shape_.T});
    kept.loss = lay_out_sums(arena);
    kept.dx = arena.take(shape_.dtype, {shape_.T, shape_.C});
    return kept;
  }
  kept.dlogits = arena.take(shape_.dtype, {shape_.T, outputs_});
  if (shape_.dtype == DType::f32 && !keeps_logits()) kept.logits = kept.dlogits;
  return kept;
}

HeadActivations HeadLoss::lay_out_evaluation(Arena& arena, const HeadScratch& scratch) const {
  return {.x = {},
          .statistics = norm_.lay_out_statistics(arena),
          .norm = arena.take(shape_.dtype, {shape_.S, shape_.C}),
          .dlogits = {},
          .logits = parts_.are_divided ? Tensor{} : scratch.logits,
          .scratch = scratch,
          .targets = scratch.targets,
          .loss = scratch.loss,
          .dx = {}};
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
  for (Tensor* x : {&kept.dlogits, &kept.logits, &kept.targets, &kept.loss.max, &kept.dx,
                    &scratch.losses, &scratch.gathered_dx})
    use_rows(*x, tokens);
  if (Tensor& sums = kept.loss.sums)
    sums.shape = parts_.are_divided ? tensor::Shape{loss_->sums_rows() * tokens}
                                    : tensor::Shape{loss_->sums_rows(), tokens};
  if (!parts_.are_divided) use_rows(scratch.capped, tokens);
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
  if (parts_.are_divided) return forward_in_parts(weights, kept);
  projection_->product(streams_.forward(), all_tokens(kept.norm, kept.scratch.forward.input),
                       weights.packed, weights.master.bias, kept.logits);
  cap(streams_.forward(), kept.logits);
  if (loss_ && parallel_.size > 1) loss_->local_max(streams_.forward(), kept.logits, kept.loss);
}

std::unique_ptr<tensor::Work> HeadLoss::reduce_max(const HeadActivations& kept) const {
  return loss_->reduce_max(streams_.forward(), kept.loss);
}

void HeadLoss::local_sums(const HeadWeights& weights, std::span<const std::int32_t> targets,
                          const HeadActivations& kept) const {
  tensor::Stream& stream = streams_.forward();
  ops_.copy(stream, host_tokens(targets), kept.targets);
  if (parts_.are_divided) return sums_in_parts(weights, kept);
  if (kept.dlogits) keep_capped(stream, kept.logits, kept.scratch.capped);
  loss_->local_sums(stream, kept.logits, kept.targets, kept.loss);
}

std::unique_ptr<tensor::Work> HeadLoss::reduce_sums(const HeadActivations& kept) const {
  return loss_->reduce_sums(streams_.forward(), kept.loss);
}

void HeadLoss::loss(const HeadWeights& weights, std::span<const std::int32_t> targets,
                    const HeadActivations& kept, const Tensor& sum,
                    const Tensor& token_losses) const {
  tensor::Stream& stream = streams_.forward();
  // One shard needs no exchange between maximum, sums and loss: one op computes all.
  if (parallel_.size == 1) ops_.copy(stream, host_tokens(targets), kept.targets);
  if (parts_.are_divided)
    loss_in_parts(weights, kept, sum, token_losses);
  else if (parallel_.size == 1)
    ops_.cross_entropy(stream, kept.logits, kept.targets, gradient_scale(kept), sum, kept.dlogits,
                       token_losses);
  else
    loss_->finish(stream, kept.logits, kept.targets, kept.loss, gradient_scale(kept), sum,
                  kept.dlogits, token_losses);
  if (kept.dlogits)
    cap_gradient(stream, all_tokens(kept.logits, kept.scratch.capped), kept.dlogits);
  if (parallel_.shard > 0) ops_.fill_zero(stream, sum);
}

void HeadLoss::cap(tensor::Stream& stream, const Tensor& logits) const {
  if (scale_ != 1 || cap_ != 0) ops_.cap_logits(stream, logits, scale_, cap_, logits);
}

void HeadLoss::keep_capped(tensor::Stream& stream, const Tensor& logits, const Tensor& copy) const {
  if (copy) ops_.copy(stream, logits, copy);
}

void HeadLoss::cap_gradient(tensor::Stream& stream, const Tensor& capped,
                            const Tensor& gradient) const {
  if (cap_ != 0) ops_.cap_logits_backward(stream, capped, gradient, 1, cap_, gradient);
}

void HeadLoss::input_gradient(const HeadWeights& weights, const HeadActivations& kept,
                              const HeadDeferred& deferred) const {
  const Tensor& dx = all_tokens(deferred.dx, kept.scratch.gathered_dx);
  if (parts_.are_divided) return ops_.copy(streams_.backward(), kept.dx, dx);
  projection_->input_gradient(streams_.backward(), kept.dlogits, weights.packed, dx);
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

void HeadLoss::weight_gradient(const HeadWeights& weights, const HeadActivations& kept,
                               const HeadParameters& gradients, tensor::Gradient which) const {
  if (parts_.are_divided) return weight_gradient_in_parts(weights, kept, gradients, which);
  const Tensor& x = all_tokens(kept.norm, kept.scratch.backward.input);
  for_each_part({0, x.shape[0]}, parts_.block, [&](const RowRange& block) {
    projection_->weight_gradient(streams_.backward(), part_of(kept.dlogits, block),
                                 part_of(x, block), gradients.projection, {}, which);
    which = tensor::Gradient::added;
  });
}

void HeadLoss::weight_gradient_norm(const HeadDeferred& deferred, const HeadParameters& gradients,
                                    tensor::Gradient which) const {
  norm_.give_gradients(streams_.backward(), deferred.dnorm, gradients.norm, which);
}

}  // namespace troupe::stages
