#include "stages/decoder/layers/sublayer.h"

#include <utility>

namespace troupe::stages {

using tensor::Tensor;
using Groups = tensor::TensorParallelGroups;

Sublayer::Sublayer(const LayerSpec& spec, tensor::Device& device, const Streams& streams,
                   const SublayerProducts& products, std::unique_ptr<SublayerCore> core)
    : shape_(spec),
      form_(products.form),
      parallel_(spec.parallel),
      is_divided_(spec.parallel.size > 1),
      has_whole_experts_(spec.whole_experts),
      ops_(device.ops()),
      streams_(streams),
      core_(std::move(core)),
      products_(products) {}

void Sublayer::lay_out(Arena& arena, const ActivationGroups& groups,
                       SublayerActivations& kept) const {
  if (products_.routed) products_.routed->lay_out(arena, groups, kept.routed);
  if (groups.inputs) kept.statistics = products_.norm.lay_out_statistics(arena);
  if (groups.outputs) kept.norm = arena.take(shape_.dtype, {shape_.S, shape_.C});
  if (groups.inputs && form_.has_end_norm) {
    kept.branch = arena.take(shape_.dtype, {shape_.S, shape_.C});
    kept.end_statistics = products_.end_norm.lay_out_statistics(arena);
  }
  core_->lay_out(arena, groups, kept);
  if (!groups.sums) return;
  if (products_.in_adapter) kept.in_low = products_.in_adapter->lay_out_low(arena);
  if (products_.out_adapter) kept.out_low = products_.out_adapter->lay_out_low(arena);
}

Tensor Sublayer::lay_out_inner(Arena& arena) const {
  return arena.take(shape_.dtype, {shape_.T, products_.inner});
}

SublayerDeferred Sublayer::lay_out_deferred(Arena& arena) const {
  SublayerDeferred deferred;
  core_->lay_out_deferred(arena, deferred);
  if (products_.routed) {
    deferred.dlogits = products_.routed->lay_out_logits(arena);
    deferred.dresults = products_.routed->lay_out_results_gradient(arena);
  }
  deferred.dnorm = products_.norm.lay_out_gradients(arena);
  if (form_.changes_branch()) deferred.dbranch = arena.take(shape_.dtype, {shape_.S, shape_.C});
  deferred.dend_norm = products_.end_norm.lay_out_gradients(arena);
  if (products_.in_adapter) deferred.din_low = products_.in_adapter->lay_out_low(arena);
  if (products_.out_adapter) deferred.dout_low = products_.out_adapter->lay_out_low(arena);
  return deferred;
}

void Sublayer::use_tokens(std::int64_t tokens, SublayerActivations& kept) const {
  const std::int64_t own = shape_.own_tokens(tokens);
  SublayerScratch& scratch = kept.scratch;
  for (Tensor* x : {&kept.x, &kept.norm, &kept.branch, &scratch.dnorm, &scratch.dropped})
    use_rows(*x, own);
  for (Tensor* x :
       {&kept.inner, &kept.hidden, &kept.in_low, &kept.out_low, &scratch.gathered_dnorm})
    use_rows(*x, tokens);
  use_rows(kept.statistics, own);
  use_rows(kept.end_statistics, own);
  use_rows(scratch.forward, tokens);
  use_rows(scratch.backward, tokens);
  core_->use_tokens(tokens, kept);
  if (!products_.routed) return;
  products_.routed->use_tokens(tokens, kept.routed);
  products_.routed->use_tokens(tokens, scratch.routed_forward);
  products_.routed->use_tokens(tokens, scratch.routed_backward);
}

void Sublayer::use_tokens(std::int64_t tokens, SublayerDeferred& deferred) const {
  use_rows(deferred.dx, shape_.own_tokens(tokens));
  use_rows(deferred.dbranch, shape_.own_tokens(tokens));
  for (Tensor* x : {&deferred.dinner, &deferred.din_low, &deferred.dout_low}) use_rows(*x, tokens);
  if (products_.routed) use_rows(deferred.dlogits, products_.routed->routed_tokens(tokens));
}

// --- forward

void Sublayer::forward_norm(const SublayerCall& call) const {
  products_.norm.forward(streams_.forward(), call.weights.master.norm, call.kept.x, call.kept.norm,
                         call.kept.statistics);
}

std::unique_ptr<tensor::Work> Sublayer::gather_input(const SublayerCall& call) const {
  return parallel_.gather_tokens(&Groups::forward, streams_.forward(), call.kept.norm,
                                 call.kept.scratch.forward.input);
}

void Sublayer::forward_product(const SublayerCall& call) const {
  tensor::Stream& stream = streams_.forward();
  const SublayerActivations& kept = call.kept;
  const AdapterProduct* const adapter = products_.in_adapter.get();
  if (call.is_routed()) return routed_product(call);
  const Tensor& x = all_tokens(kept.norm, kept.scratch.forward.input);
  products_.in->product(stream, x, call.weights.packed.in, call.weights.master.in.bias,
                        adapter ? adapter->base_of(kept.product()) : kept.product());
  if (adapter)
    adapter->add_forward(stream, call.weights.packed.in_adapter, kept.adapter_dropout.in, x,
                         kept.in_low, kept.product());
  core_->begin_forward(stream, call);
}

std::unique_ptr<tensor::Work> Sublayer::reduce_squares(const SublayerCall& call) const {
  return parallel_.groups->forward->all_reduce(streams_.forward(), call.kept.head_squares);
}

void Sublayer::forward_hidden(const SublayerCall& call) const {
  if (call.is_routed())
    products_.routed->forward_hidden(streams_.forward(), call.kept.routed);
  else
    core_->forward(streams_.forward(), call);
}

/// Whether the last product adds the residual: nothing comes between the two.
bool Sublayer::fuses_residual(const HiddenDropout& dropout) const {
  return !is_divided_ && !dropout.drops() && !form_.changes_branch();
}

const Tensor& Sublayer::branch_of(const SublayerCall& call) const {
  return form_.has_end_norm ? call.kept.branch : call.out;
}

/// The last product, plus `residual` if it is given.
void Sublayer::output_product(const SublayerCall& call, const Tensor& y,
                              const Tensor& residual) const {
  tensor::Stream& stream = streams_.forward();
  if (call.is_routed())
    return products_.routed->forward_output(stream, call.weights, call.kept.routed,
                                            call.kept.scratch.routed_forward, y, residual);
  const AdapterProduct* const adapter = products_.out_adapter.get();
  products_.out->product(stream, call.kept.hidden, call.weights.packed.out,
                         adapter ? adapter->base_of(y) : y, residual);
  if (adapter)
    adapter->add_forward(stream, call.weights.packed.out_adapter, call.kept.adapter_dropout.out,
                         call.kept.hidden, call.kept.out_low, y);
}

void Sublayer::forward_output(const SublayerCall& call) const {
  output_product(call, product_of(call),
                 fuses_residual(call.kept.dropout) ? call.kept.x : Tensor{});
  if (!is_divided_) finish_output(call);
}

std::unique_ptr<tensor::Work> Sublayer::reduce_output(const SublayerCall& call) const {
  const Tensor& branch = branch_of(call);
  return parallel_.reduce(&Groups::forward, streams_.forward(),
                          all_tokens(branch, call.kept.scratch.forward.output), branch);
}

/// Adds the bias of the last product, if it has one, and the residual, if it is given.
void Sublayer::add_bias(const SublayerCall& call, const Tensor& residual, const Tensor& y) const {
  tensor::Stream& stream = streams_.forward();
  if (const Tensor& bias = call.weights.master.out.bias)
    ops_.add_bias(stream, bias, y, residual);
  else if (residual)
    ops_.accumulate(stream, residual, y);
}

void Sublayer::finish_output(const SublayerCall& call) const {
  if (keeps_tokens(call) && !call.again)
    products_.routed->add_load(streams_.forward(), call.kept.routed,
                               call.kept.scratch.routed_forward);
  tensor::Stream& stream = streams_.forward();
  const Tensor &x = call.kept.x, &y = call.out;
  const HiddenDropout& dropout = call.kept.dropout;
  const bool adds_all = !dropout.drops() && !fuses_residual(dropout) && !form_.changes_branch();
  add_bias(call, adds_all ? x : Tensor{}, branch_of(call));
  if (form_.has_end_norm) norm_branch(call, y);
  if (!form_.changes_branch()) {
    if (dropout.drops()) dropout.apply(ops_, stream, y, y, x);
    return;
  }
  if (dropout.drops()) dropout.apply(ops_, stream, y, y);
  ops_.add_scaled(stream, y, form_.branch_scale, x, y);
}

void Sublayer::norm_branch(const SublayerCall& call, const Tensor& normed) const {
  products_.end_norm.forward(streams_.forward(), call.weights.master.end_norm, call.kept.branch,
                             normed, call.kept.end_statistics);
}

void Sublayer::forward_branch(const SublayerCall& call) const {
  output_product(call, all_tokens(call.kept.branch, call.kept.scratch.forward.output), {});
  if (!is_divided_) finish_branch(call);
}

void Sublayer::forward_kept(const SublayerCall& call) const {
  if (products_.out_adapter)
    products_.out_adapter->forward_low(streams_.forward(), call.weights.packed.out_adapter,
                                       call.kept.adapter_dropout.out, call.kept.hidden,
                                       call.kept.out_low);
}

/// What is normed goes where no backward has begun to write.
void Sublayer::finish_branch(const SublayerCall& call) const {
  add_bias(call, {}, call.kept.branch);
  norm_branch(call, call.kept.scratch.dnorm);
}

void Sublayer::recompute(const ActivationGroups& discarded, const SublayerCall& call) const {
  if (discarded.outputs) forward_norm(call);
  if (!call.is_routed())
    core_->recompute(streams_.forward(), discarded, call);
  else if (discarded.outputs)
    forward_hidden(call);
}

// --- input gradients

const Tensor& Sublayer::before_dropout(const SublayerCall& call) const {
  return gradient_before(call.kept.dropout, ops_, streams_.backward(), call.out,
                         call.kept.scratch.dropped);
}

void Sublayer::branch_gradient(const SublayerCall& call) const {
  tensor::Stream& stream = streams_.backward();
  const Tensor& dbranch = call.deferred->dbranch;
  const Tensor* dy = &before_dropout(call);
  if (form_.branch_scale != 1) {
    ops_.scale(stream, *dy, form_.branch_scale, dbranch);
    dy = &dbranch;
  }
  if (form_.has_end_norm)
    products_.end_norm.backward(stream, call.weights.master.end_norm, *dy, call.kept.branch,
                                call.kept.end_statistics, {}, dbranch, call.deferred->dend_norm);
}

/// The gradient of what the last product gave, of the shard's tokens.
const Tensor& Sublayer::own_output_gradient(const SublayerCall& call) const {
  return form_.changes_branch() ? call.deferred->dbranch : before_dropout(call);
}

/// The same: with sequence parallelism what gather_gradient() has gathered.
const Tensor& Sublayer::output_gradient(const SublayerCall& call) const {
  const Tensor& gathered = call.kept.scratch.backward.output;
  return gathered ? gathered : own_output_gradient(call);
}

std::unique_ptr<tensor::Work> Sublayer::gather_gradient(const SublayerCall& call) const {
  return parallel_.gather_tokens(&Groups::backward, streams_.backward(), own_output_gradient(call),
                                 call.kept.scratch.backward.output);
}

void Sublayer::core_gradient(const SublayerCall& call) const {
  tensor::Stream& stream = streams_.backward();
  if (call.is_routed())
    return products_.routed->hidden_gradient(stream, call.weights, routed_output_gradient(call),
                                             call.kept.routed, call.kept.scratch.routed_backward);
  const Tensor& hidden = call.kept.hidden;
  const Tensor dhidden{call.kept.scratch.dhidden.data, hidden.dtype, hidden.shape};
  const Tensor& dy = output_gradient(call);
  products_.out->input_gradient(stream, dy, call.weights.packed.out, dhidden);
  if (products_.out_adapter)
    products_.out_adapter->add_input_gradient(stream, call.weights.packed.out_adapter,
                                              call.kept.adapter_dropout.out, dy,
                                              call.deferred->dout_low, dhidden);
  core_->backward(stream, call, dhidden);
}

std::unique_ptr<tensor::Work> Sublayer::reduce_dots(const SublayerCall& call) const {
  return parallel_.groups->backward->all_reduce(streams_.backward(), call.kept.scratch.head_dots);
}

void Sublayer::input_gradient(const SublayerCall& call) const {
  tensor::Stream& stream = streams_.backward();
  const SublayerScratch& scratch = call.kept.scratch;
  const Tensor& dx = all_tokens(scratch.dnorm, scratch.gathered_dnorm);
  if (call.is_routed()) return routed_gradient(call);
  core_->finish_backward(stream, call);
  products_.in->input_gradient(stream, call.dinner(), call.weights.packed.in, dx);
  if (products_.in_adapter)
    products_.in_adapter->add_input_gradient(stream, call.weights.packed.in_adapter,
                                             call.kept.adapter_dropout.in, call.dinner(),
                                             call.deferred->din_low, dx);
}

std::unique_ptr<tensor::Work> Sublayer::reduce_gradient(const SublayerCall& call) const {
  const SublayerScratch& scratch = call.kept.scratch;
  return parallel_.reduce(&Groups::backward, streams_.backward(),
                          all_tokens(scratch.dnorm, scratch.gathered_dnorm), scratch.dnorm);
}

void Sublayer::norm_input_gradient(const SublayerCall& call, const Tensor& dx) const {
  products_.norm.backward(streams_.backward(), call.weights.master.norm, call.kept.scratch.dnorm,
                          call.kept.x, call.kept.statistics, call.out, dx, call.deferred->dnorm);
}

// --- weight gradients

std::unique_ptr<tensor::Work> Sublayer::gather_input_again(const SublayerCall& call) const {
  return parallel_.gather_tokens(&Groups::backward, streams_.backward(), call.kept.norm,
                                 call.kept.scratch.backward.input);
}

void Sublayer::weight_gradient(const SublayerCall& call, const SublayerParameters& gradients,
                               tensor::Gradient which) const {
  if (!gradients.in.weight) return adapter_gradient(call, gradients, which);
  tensor::Stream& stream = streams_.backward();
  if (call.is_routed())
    return products_.routed->weight_gradient(
        stream,
        {.x = keeps_tokens(call) ? call.kept.norm
                                 : all_tokens(call.kept.norm, call.kept.scratch.backward.input),
         .dy = routed_output_gradient(call),
         .dlogits = call.deferred->dlogits,
         .dresults = call.deferred->dresults,
         .which = which},
        call.kept.routed, call.kept.scratch.routed_backward, gradients);
  products_.out->weight_gradient(stream, output_gradient(call), call.kept.hidden,
                                 gradients.out.weight, which);
  if (gradients.out.bias)
    products_.out->bias_gradient(stream, own_output_gradient(call), gradients.out.bias, which);
  products_.in->weight_gradient(stream, call.dinner(),
                                all_tokens(call.kept.norm, call.kept.scratch.backward.input),
                                gradients.in.weight, gradients.in.bias, which);
  core_->weight_gradient(stream, call, gradients, which);
}

void Sublayer::adapter_gradient(const SublayerCall& call, const SublayerParameters& gradients,
                                tensor::Gradient which) const {
  tensor::Stream& stream = streams_.backward();
  const SublayerActivations& kept = call.kept;
  const AdapterDropout& dropout = kept.adapter_dropout;
  if (products_.out_adapter)
    products_.out_adapter->weight_gradient(stream, dropout.out, output_gradient(call), kept.hidden,
                                           kept.out_low, call.deferred->dout_low,
                                           gradients.out_adapter, which);
  if (products_.in_adapter)
    products_.in_adapter->weight_gradient(
        stream, dropout.in, call.dinner(), all_tokens(kept.norm, kept.scratch.backward.input),
        kept.in_low, call.deferred->din_low, gradients.in_adapter, which);
}

void Sublayer::norm_weight_gradient(const SublayerCall& call, const SublayerParameters& gradients,
                                    tensor::Gradient which) const {
  products_.norm.give_gradients(streams_.backward(), call.deferred->dnorm, gradients.norm, which);
}

void Sublayer::end_norm_weight_gradient(const SublayerCall& call,
                                        const SublayerParameters& gradients,
                                        tensor::Gradient which) const {
  products_.end_norm.give_gradients(streams_.backward(), call.deferred->dend_norm,
                                    gradients.end_norm, which);
}

}  // namespace troupe::stages
