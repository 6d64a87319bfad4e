#include "stages/decoder/layers/sublayer.h"

#include <utility>

namespace troupe::stages {

using tensor::Tensor;

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
  SublayerDeferred deferred;
  core_->lay_out_deferred(arena, deferred);
  deferred.dnorm = products_.norm.lay_out_gradients(arena);
  return deferred;
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

void Sublayer::forward_norm(const SublayerCall& call) const {
  products_.norm.forward(streams_.forward(), call.weights.master.norm, call.kept.x, call.kept.norm,
                         call.kept.statistics);
}

std::unique_ptr<tensor::Work> Sublayer::gather_input(const SublayerCall& call) const {
  return products_.in->gather_input(streams_.forward(), call.kept.norm,
                                    call.kept.scratch.forward.input);
}

void Sublayer::forward_hidden(const SublayerCall& call) const {
  tensor::Stream& stream = streams_.forward();
  products_.in->product(stream, all_tokens(call.kept.norm, call.kept.scratch.forward.input),
                        call.weights.packed.in, call.weights.master.in.bias, call.kept.inner);
  core_->forward(stream, call);
}

/// Whether the last product adds the residual: nothing comes between the two.
bool Sublayer::fuses_residual(const HiddenDropout& dropout) const {
  return !is_divided_ && !dropout.drops();
}

void Sublayer::forward(const SublayerCall& call) const {
  forward_hidden(call);
  products_.out->product(streams_.forward(), call.kept.hidden, call.weights.packed.out,
                         all_tokens(call.out, call.kept.scratch.forward.output),
                         fuses_residual(call.kept.dropout) ? call.kept.x : Tensor{});
  if (!is_divided_) finish_output(call);
}

std::unique_ptr<tensor::Work> Sublayer::reduce_output(const SublayerCall& call) const {
  return products_.out->reduce_output(
      streams_.forward(), all_tokens(call.out, call.kept.scratch.forward.output), call.out);
}

void Sublayer::finish_output(const SublayerCall& call) const {
  tensor::Stream& stream = streams_.forward();
  const Tensor &x = call.kept.x, &y = call.out;
  const HiddenDropout& dropout = call.kept.dropout;
  const bool adds_all = !dropout.drops() && !fuses_residual(dropout);
  products_.out->add_bias_and_residual(stream, call.weights.master.out.bias,
                                       adds_all ? x : Tensor{}, y);
  if (dropout.drops()) dropout.apply(ops_, stream, y, y, x);
}

void Sublayer::recompute(const ActivationGroups& discarded, const SublayerCall& call) const {
  if (discarded.outputs) forward_norm(call);
  core_->recompute(streams_.forward(), discarded, call);
}

// --- input gradients

const Tensor& Sublayer::before_dropout(const SublayerCall& call) const {
  return gradient_before(call.kept.dropout, ops_, streams_.backward(), call.out,
                         call.kept.scratch.dropped);
}

/// The gradient of what the last product gave: with sequence parallelism what gather_gradient() has
/// gathered.
const Tensor& Sublayer::output_gradient(const SublayerCall& call) const {
  const Tensor& gathered = call.kept.scratch.backward.output;
  return gathered ? gathered : before_dropout(call);
}

std::unique_ptr<tensor::Work> Sublayer::gather_gradient(const SublayerCall& call) const {
  return products_.out->gather_output_gradient(streams_.backward(), before_dropout(call),
                                               call.kept.scratch.backward.output);
}

void Sublayer::input_gradient(const SublayerCall& call) const {
  tensor::Stream& stream = streams_.backward();
  const SublayerScratch& scratch = call.kept.scratch;
  const Tensor& hidden = call.kept.hidden;
  const Tensor dhidden{scratch.dhidden.data, hidden.dtype, hidden.shape};
  products_.out->input_gradient(stream, output_gradient(call), call.weights.packed.out, dhidden);
  core_->backward(stream, call, dhidden);
  products_.in->input_gradient(stream, call.dinner(), call.weights.packed.in,
                               all_tokens(scratch.dnorm, scratch.gathered_dnorm));
}

std::unique_ptr<tensor::Work> Sublayer::reduce_gradient(const SublayerCall& call) const {
  const SublayerScratch& scratch = call.kept.scratch;
  return products_.in->reduce_input_gradient(
      streams_.backward(), all_tokens(scratch.dnorm, scratch.gathered_dnorm), scratch.dnorm);
}

void Sublayer::norm_input_gradient(const SublayerCall& call, const Tensor& dx) const {
  products_.norm.backward(streams_.backward(), call.weights.master.norm, call.kept.scratch.dnorm,
                          call.kept.x, call.kept.statistics, call.out, dx, call.deferred->dnorm);
}

// --- weight gradients

std::unique_ptr<tensor::Work> Sublayer::gather_input_again(const SublayerCall& call) const {
  return products_.in->gather_input_again(streams_.backward(), call.kept.norm,
                                          call.kept.scratch.backward.input);
}

void Sublayer::weight_gradient(const SublayerCall& call, const SublayerParameters& gradients,
                               tensor::Gradient which) const {
  tensor::Stream& stream = streams_.backward();
  products_.out->weight_gradient(stream, output_gradient(call), call.kept.hidden,
                                 gradients.out.weight, which);
  if (gradients.out.bias)
    products_.out->bias_gradient(stream, before_dropout(call), gradients.out.bias, which);
  products_.in->weight_gradient(stream, call.dinner(),
                                all_tokens(call.kept.norm, call.kept.scratch.backward.input),
                                gradients.in.weight, gradients.in.bias, which);
}

void Sublayer::norm_weight_gradient(const SublayerCall& call, const SublayerParameters& gradients,
                                    tensor::Gradient which) const {
  products_.norm.give_gradients(streams_.backward(), call.deferred->dnorm, gradients.norm, which);
}

}  // namespace troupe::stages
