#include "stages/layers/head_loss.h"

#include "stages/layers/embedding.h"
#include "stages/layers/gradient.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

HeadLoss::HeadLoss(const LayerSpec& spec, tensor::Device& device, const Streams& streams)
    : shape_(spec),
      eps_(static_cast<float>(spec.model.rms_norm_eps)),
      ops_(device.ops()),
      streams_(streams),
      projection_(device.make_linear({.rows = shape_.T,
                                      .in = shape_.C,
                                      .out = shape_.V,
                                      .dtype = shape_.dtype,
                                      .output_dtype = DType::f32})) {}

void* HeadLoss::lay_out_packed(Arena& arena) const {
  return arena.take_bytes(projection_->packed_bytes());
}

HeadScratch HeadLoss::lay_out_scratch(Arena& arena) const {
  return {.targets = arena.take(DType::i32, {shape_.T}),
          .logits = arena.take(DType::f32, {shape_.T, shape_.V})};
}

HeadActivations HeadLoss::lay_out_activations(Arena& arena, const HeadScratch& scratch) const {
  HeadActivations kept = lay_out_evaluation(arena, scratch);
  kept.dlogits = arena.take(shape_.dtype, {shape_.T, shape_.V});
  if (shape_.dtype == DType::f32) kept.logits = kept.dlogits;
  return kept;
}

HeadActivations HeadLoss::lay_out_evaluation(Arena& arena, const HeadScratch& scratch) const {
  return {.x = {},
          .rstd = arena.take(DType::f32, {shape_.T}),
          .norm = arena.take(shape_.dtype, {shape_.T, shape_.C}),
          .dlogits = {},
          .logits = scratch.logits,
          .targets = scratch.targets};
}

HeadDeferred HeadLoss::lay_out_deferred(Arena& arena) const {
  return {.dx = arena.take(shape_.dtype, {shape_.T, shape_.C}),
          .dnorm = arena.take(DType::f32, {shape_.C})};
}

void HeadLoss::pack(const HeadWeights& weights) const {
  projection_->pack(streams_.backward(), weights.master.projection, weights.packed);
}

void HeadLoss::forward(const HeadWeights& weights, const HeadActivations& kept) const {
  ops_.rms_norm(streams_.forward(), kept.x, weights.master.norm, eps_, kept.norm, kept.rstd);
  projection_->forward(streams_.forward(), kept.norm, weights.packed, kept.logits);
}

double HeadLoss::loss(std::span<const std::int32_t> targets, float scale,
                      const HeadActivations& kept) const {
  ops_.copy(streams_.forward(), host_tokens(targets), kept.targets);
  return ops_.cross_entropy(streams_.forward(), kept.logits, kept.targets, scale, kept.dlogits);
}

void HeadLoss::input_gradient(const HeadWeights& weights, const HeadActivations& kept,
                              const HeadDeferred& deferred) const {
  projection_->input_gradient(streams_.backward(), kept.dlogits, weights.packed, deferred.dx);
  ops_.rms_norm_backward(streams_.backward(), deferred.dx, kept.x, weights.master.norm, kept.rstd,
                         {}, deferred.dx, deferred.dnorm);
}

void HeadLoss::weight_gradient(const HeadActivations& kept, const HeadDeferred& deferred,
                               const HeadParameters& gradients, tensor::Gradient which) const {
  projection_->weight_gradient(streams_.backward(), kept.dlogits, kept.norm, gradients.projection,
                               which);
  give_gradient(ops_, streams_.backward(), deferred.dnorm, gradients.norm, which);
}

}  // namespace troupe::stages
