#include "stages/decoder/layers/sublayer.h"

// What a sublayer with experts computes, on one replica or between the travels of its rows.

namespace troupe::stages {

using tensor::Tensor;
using Work = std::unique_ptr<tensor::Work>;

namespace {

/// The group that the pass of a forward uses.
RoutedExperts::Direction direction_of(const SublayerCall& call) {
  using Groups = tensor::ExpertParallelGroups;
  return call.again ? &Groups::backward : &Groups::forward;
}
constexpr RoutedExperts::Direction kBackward = &tensor::ExpertParallelGroups::backward;

}  // namespace

const Tensor& Sublayer::product_of(const SublayerCall& call) const {
  const Tensor& branch = branch_of(call);
  return keeps_tokens(call) ? branch : all_tokens(branch, call.kept.scratch.forward.output);
}

const Tensor& Sublayer::routed_input(const SublayerCall& call) const {
  const SublayerActivations& kept = call.kept;
  return keeps_tokens(call) ? kept.norm : all_tokens(kept.norm, kept.scratch.forward.input);
}

const Tensor& Sublayer::routed_output_gradient(const SublayerCall& call) const {
  return keeps_tokens(call) ? own_output_gradient(call) : output_gradient(call);
}

Work Sublayer::sum_load(const SublayerCall& call) const {
  return products_.routed->sum_load(streams_.forward(), call.kept.routed);
}

void Sublayer::routed_product(const SublayerCall& call) const {
  const Tensor& x = routed_input(call);
  tensor::Stream& stream = streams_.forward();
  const RoutedScratch& scratch = call.kept.scratch.routed_forward;
  const RoutedExperts& routed = *products_.routed;
  if (!call.again) routed.choose(stream, call.weights, x, call.kept.routed, scratch);
  routed.forward_product(stream, call.weights, x, call.kept.routed, scratch);
}

void Sublayer::routed_gradient(const SublayerCall& call) const {
  products_.routed->rows_gradient(streams_.backward(), call.weights, call.kept.routed,
                                  call.kept.scratch.routed_backward);
  router_gradient(call);
  collect_gradient(call);
}

// --- forward

void Sublayer::route_rows(const SublayerCall& call) const {
  tensor::Stream& stream = streams_.forward();
  const SublayerActivations& kept = call.kept;
  const Tensor& x = routed_input(call);
  products_.routed->choose(stream, call.weights, x, kept.routed, kept.scratch.routed_forward);
  products_.routed->gather_rows(stream, x, kept.routed, kept.scratch.routed_forward);
}

Work Sublayer::gather_offsets(const SublayerCall& call) const {
  return products_.routed->gather_offsets(streams_.forward(), direction_of(call), call.kept.routed);
}

Work Sublayer::send_weights(const SublayerCall& call) const {
  return products_.routed->send_weights(streams_.forward(), direction_of(call), call.kept.routed,
                                        call.kept.scratch.routed_forward);
}

Work Sublayer::send_rows(const SublayerCall& call) const {
  return products_.routed->send_rows(streams_.forward(), direction_of(call), call.kept.routed,
                                     call.kept.scratch.routed_forward);
}

void Sublayer::compute_received(const SublayerCall& call) const {
  if (!call.again)
    products_.routed->arrange_rows(streams_.forward(), call.kept.routed,
                                   call.kept.scratch.routed_forward);
  products_.routed->forward_received(streams_.forward(), call.weights, call.kept.routed);
}

void Sublayer::compute_results(const SublayerCall& call) const {
  products_.routed->forward_results(streams_.forward(), call.weights, call.kept.routed,
                                    call.kept.scratch.routed_forward);
}

Work Sublayer::return_results(const SublayerCall& call) const {
  return products_.routed->return_results(streams_.forward(), direction_of(call), call.kept.routed,
                                          call.kept.scratch.routed_forward);
}

void Sublayer::collect_output(const SublayerCall& call) const {
  const SublayerActivations& kept = call.kept;
  products_.routed->sum_results(streams_.forward(), kept.routed, kept.scratch.routed_forward,
                                product_of(call), fuses_residual(kept.dropout) ? kept.x : Tensor{});
  if (!is_divided_) finish_output(call);
}

// --- backward

void Sublayer::route_gradient(const SublayerCall& call) const {
  products_.routed->gather_gradient(streams_.backward(), routed_output_gradient(call),
                                    call.kept.routed, call.kept.scratch.routed_backward);
}

Work Sublayer::send_gradient(const SublayerCall& call) const {
  return products_.routed->send_gradient(streams_.backward(), kBackward, call.kept.routed,
                                         call.kept.scratch.routed_backward);
}

void Sublayer::received_gradient(const SublayerCall& call) const {
  products_.routed->received_gradient(streams_.backward(), call.weights, call.kept.routed,
                                      call.kept.scratch.routed_backward, call.deferred->dresults);
}

Work Sublayer::return_weights_gradient(const SublayerCall& call) const {
  return products_.routed->return_weights_gradient(streams_.backward(), kBackward, call.kept.routed,
                                                   call.kept.scratch.routed_backward);
}

Work Sublayer::return_rows_gradient(const SublayerCall& call) const {
  return products_.routed->return_rows_gradient(streams_.backward(), kBackward, call.kept.routed,
                                                call.kept.scratch.routed_backward);
}

void Sublayer::router_gradient(const SublayerCall& call) const {
  products_.routed->router_gradient(streams_.backward(), call.kept.routed,
                                    call.kept.scratch.routed_backward, call.deferred->dlogits);
}

void Sublayer::collect_gradient(const SublayerCall& call) const {
  const SublayerScratch& scratch = call.kept.scratch;
  products_.routed->input_gradient(
      streams_.backward(), call.weights, call.kept.routed, scratch.routed_backward,
      call.deferred->dlogits,
      keeps_tokens(call) ? scratch.dnorm : all_tokens(scratch.dnorm, scratch.gathered_dnorm));
}

}  // namespace troupe::stages
