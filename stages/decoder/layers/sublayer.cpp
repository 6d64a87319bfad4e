#include "stages/decoder/layers/sublayer.h"

#include <utility>

namespace troupe::stages {

using tensor::Tensor;

namespace {

/// The gradient of `inner`.
const Tensor& dinner(const SublayerActivations& kept, const SublayerDeferred& deferred) {
  return deferred.dinner ? deferred.dinner : kept.inner;
}

}  // namespace

Sublayer::Sublayer(const LayerSpec& spec, tensor::Device& device, const Streams& streams,
                   const SublayerProducts& products, std::unique_ptr<SublayerCore> core)
    : shape_(spec),
      is_divided_(spec.parallel.size > 1),
      ops_(device.ops()),
      streams_(streams),
      core_(std::move(core)),
      products_(products) {}

void Sublayer::lay_out(Arena& arena, const ActivationGroups& groups,
                       SublayerActivations& kept) const {
  if (groups.inputs) kept.statistics = products_.norm.lay_out_statistics(arena);
  if (groups.outputs) kept.norm = arena.take(shape_.dtype, {shape_.S, shape_.C});
  core_->lay_out(arena, groups, kept);
}

Tensor Sublayer::lay_out_inner(Arena& arena) const {
  return arena.take(shape_.dtype, {shape_.T, products_.inner});
}

SublayerDeferred Sublayer::lay_out_deferred(Arena& arena) const {
  return {.dx = {},
          .dinner = core_->lay_out_gradient(arena),
          .dnorm = products_.norm.lay_out_gradients(arena)};
}

void Sublayer::use_tokens(std::int64_t tokens, SublayerActivations& kept) const {
  const std::int64_t own = shape_.own_tokens(tokens);
  SublayerScratch& scratch = kept.scratch;
  for (Tensor* x : {&kept.x, &kept.norm, &scratch.dnorm, &scratch.dropped}) use_rows(*x, own);
  for (Tensor* x : {&kept.inner, &kept.hidden, &scratch.gathered_dnorm}) use_rows(*x, tokens);
  use_rows(kept.statistics, own);
  use_rows(scratch.forward, tokens);
  use_rows(scratch.backward, tokens);
  core_->use_tokens(tokens, kept);
}

void Sublayer::use_tokens(std::int64_t tokens, SublayerDeferred& deferred) const {
  use_rows(deferred.dx, shape_.own_tokens(tokens));
  use_rows(deferred.dinner, tokens);
}

// --- forward

void Sublayer::forward_norm(const SublayerWeights& weights, const SublayerActivations& kept) const {
  products_.norm.forward(streams_.forward(), weights.master.norm, kept.x, kept.norm,
                         kept.statistics);
}

std::unique_ptr<tensor::Work> Sublayer::gather_input(const SublayerActivations& kept) const {
  return products_.in->gather_input(streams_.forward(), kept.norm, kept.scratch.forward.input);
}

void Sublayer::forward_hidden(const SublayerWeights& weights,
                              const SublayerActivations& kept) const {
  tensor::Stream& stream = streams_.forward();
  products_.in->product(stream, all_tokens(kept.norm, kept.scratch.forward.input),
                        weights.packed.in, weights.master.in.bias, kept.inner);
  core_->forward(stream, kept);
}

/// Whether the last product adds the residual: nothing comes between the two.
bool Sublayer::fuses_residual(const HiddenDropout& dropout) const {
  return !is_divided_ && !dropout.drops();
}

void Sublayer::forward(const SublayerWeights& weights, const SublayerActivations& kept,
                       const Tensor& y) const {
  forward_hidden(weights, kept);
  products_.out->product(streams_.forward(), kept.hidden, weights.packed.out,
                         all_tokens(y, kept.scratch.forward.output),
                         fuses_residual(kept.dropout) ? kept.x : Tensor{});
  if (!is_divided_) finish_output(weights, kept, y);
}

std::unique_ptr<tensor::Work> Sublayer::reduce_output(const SublayerActivations& kept,
                                                      const Tensor& y) const {
  return products_.out->reduce_output(streams_.forward(),
                                      all_tokens(y, kept.scratch.forward.output), y);
}

void Sublayer::finish_output(const SublayerWeights& weights, const SublayerActivations& kept,
                             const Tensor& y) const {
  tensor::Stream& stream = streams_.forward();
  const HiddenDropout& dropout = kept.dropout;
  const bool adds_all = !dropout.drops() && !fuses_residual(dropout);
  products_.out->add_bias_and_residual(stream, weights.master.out.bias,
                                       adds_all ? kept.x : Tensor{}, y);
  if (dropout.drops()) ops_.dropout(stream, dropout.dropout, dropout.tokens, y, y, kept.x);
}

void Sublayer::recompute(const ActivationGroups& discarded, const SublayerWeights& weights,
                         const SublayerActivations& kept) const {
  if (discarded.outputs) forward_norm(weights, kept);
  core_->recompute(streams_.forward(), discarded, kept);
}

// --- input gradients

const Tensor& Sublayer::before_dropout(const Tensor& dy, const SublayerActivations& kept) const {
  return gradient_before(kept.dropout, ops_, streams_.backward(), dy, kept.scratch.dropped);
}

/// The gradient of what the last product gave: with sequence parallelism what gather_gradient() has
/// gathered.
const Tensor& Sublayer::output_gradient(const Tensor& dy, const SublayerActivations& kept) const {
  const Tensor& gathered = kept.scratch.backward.output;
  return gathered ? gathered : before_dropout(dy, kept);
}

std::unique_ptr<tensor::Work> Sublayer::gather_gradient(const Tensor& dy,
                                                        const SublayerActivations& kept) const {
  return products_.out->gather_output_gradient(streams_.backward(), before_dropout(dy, kept),
                                               kept.scratch.backward.output);
}

void Sublayer::input_gradient(const SublayerWeights& weights, const Tensor& dy,
                              const SublayerActivations& kept,
                              const SublayerDeferred& deferred) const {
  tensor::Stream& stream = streams_.backward();
  const SublayerScratch& scratch = kept.scratch;
  const Tensor dhidden{scratch.dhidden.data, kept.hidden.dtype, kept.hidden.shape};
  products_.out->input_gradient(stream, output_gradient(dy, kept), weights.packed.out, dhidden);
  core_->backward(stream, kept, dhidden, dinner(kept, deferred));
  products_.in->input_gradient(stream, dinner(kept, deferred), weights.packed.in,
                               all_tokens(scratch.dnorm, scratch.gathered_dnorm));
}

std::unique_ptr<tensor::Work> Sublayer::reduce_gradient(const SublayerActivations& kept) const {
  const SublayerScratch& scratch = kept.scratch;
  return products_.in->reduce_input_gradient(
      streams_.backward(), all_tokens(scratch.dnorm, scratch.gathered_dnorm), scratch.dnorm);
}

void Sublayer::norm_input_gradient(const SublayerWeights& weights, const Tensor& dy,
                                   const SublayerActivations& kept,
                                   const SublayerDeferred& deferred, const Tensor& dx) const {
  products_.norm.backward(streams_.backward(), weights.master.norm, kept.scratch.dnorm, kept.x,
                          kept.statistics, dy, dx, deferred.dnorm);
}

// --- weight gradients

std::unique_ptr<tensor::Work> Sublayer::gather_input_again(const SublayerActivations& kept) const {
  return products_.in->gather_input_again(streams_.backward(), kept.norm,
                                          kept.scratch.backward.input);
}

void Sublayer::weight_gradient(const Tensor& dy, const SublayerActivations& kept,
                               const SublayerDeferred& deferred,
                               const SublayerParameters& gradients, tensor::Gradient which) const {
  tensor::Stream& stream = streams_.backward();
  products_.out->weight_gradient(stream, output_gradient(dy, kept), kept.hidden,
                                 gradients.out.weight, which);
  if (gradients.out.bias)
    products_.out->bias_gradient(stream, before_dropout(dy, kept), gradients.out.bias, which);
  products_.in->weight_gradient(stream, dinner(kept, deferred),
                                all_tokens(kept.norm, kept.scratch.backward.input),
                                gradients.in.weight, gradients.in.bias, which);
}

void Sublayer::norm_weight_gradient(const SublayerDeferred& deferred,
                                    const SublayerParameters& gradients,
                                    tensor::Gradient which) const {
  products_.norm.give_gradients(streams_.backward(), deferred.dnorm, gradients.norm, which);
}

}  // namespace troupe::stages
