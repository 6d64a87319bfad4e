#include "stages/layers/decoder_block.h"

namespace troupe::stages {

using tensor::Tensor;

// --- input gradients

std::unique_ptr<tensor::Work> DecoderBlock::gather_gradient(Branch branch, const Tensor& dy,
                                                            const BlockActivations& kept) const {
  return last_of(branch).gather_output_gradient(
      streams_.backward(), before_dropout(branch, dy, kept), kept.scratch.backward.output);
}

const Tensor& DecoderBlock::before_dropout(Branch branch, const Tensor& dy,
                                           const BlockActivations& kept) const {
  return gradient_before(dropout_of(branch, kept), ops_, streams_.backward(), dy,
                         kept.scratch.dropped);
}

/// The gradient of what a branch's last product gave, for the gradient dy of the branch: with
/// sequence parallelism what gather_gradient() has gathered.
const Tensor& DecoderBlock::output_gradient(Branch branch, const Tensor& dy,
                                            const BlockActivations& kept) const {
  const Tensor& gathered = kept.scratch.backward.output;
  return gathered ? gathered : before_dropout(branch, dy, kept);
}

void DecoderBlock::input_gradient_feed_forward(const BlockWeights& weights, const Tensor& dy,
                                               const BlockActivations& kept) const {
  tensor::Stream& stream = streams_.backward();
  const BlockScratch& scratch = kept.scratch;
  down_->input_gradient(stream, output_gradient(Branch::feed_forward, dy, kept),
                        weights.packed.down, scratch.dact);
  activation_->backward(stream, kept.gate_up, scratch.dact, kept.gate_up);
  gate_up_->input_gradient(stream, kept.gate_up, weights.packed.gate_up,
                           all_tokens(scratch.dnorm, scratch.gathered_dnorm));
}

std::unique_ptr<tensor::Work> DecoderBlock::reduce_gradient(Branch branch,
                                                            const BlockActivations& kept) const {
  const BlockScratch& scratch = kept.scratch;
  return first_of(branch).reduce_input_gradient(
      streams_.backward(), all_tokens(scratch.dnorm, scratch.gathered_dnorm), scratch.dnorm);
}

void DecoderBlock::input_gradient_post_norm(const BlockWeights& weights, const Tensor& dy,
                                            const BlockActivations& kept,
                                            const BlockDeferred& deferred) const {
  norm_->backward(streams_.backward(), weights.master.post_norm, kept.scratch.dnorm, kept.mid,
                  kept.mid_statistics, dy, deferred.dmid, deferred.dpost_norm);
}

void DecoderBlock::input_gradient_attention(const BlockWeights& weights,
                                            const BlockActivations& kept,
                                            const BlockDeferred& deferred) const {
  tensor::Stream& stream = streams_.backward();
  const BlockScratch& scratch = kept.scratch;
  o_->input_gradient(stream, output_gradient(Branch::attention, deferred.dmid, kept),
                     weights.packed.o, scratch.dattn);
  attention_->backward(stream, kept.saved, kept.lse, kept.attn, scratch.dattn, deferred.dqkv,
                       kept.dropout.probabilities);
  qkv_->input_gradient(stream, deferred.dqkv, weights.packed.qkv,
                       all_tokens(scratch.dnorm, scratch.gathered_dnorm));
}

void DecoderBlock::input_gradient_input_norm(const BlockWeights& weights,
                                             const BlockActivations& kept,
                                             const BlockDeferred& deferred,
                                             const Tensor& dx) const {
  norm_->backward(streams_.backward(), weights.master.input_norm, kept.scratch.dnorm, kept.x,
                  kept.x_statistics, deferred.dmid, dx, deferred.dinput_norm);
}

// --- weight gradients

std::unique_ptr<tensor::Work> DecoderBlock::gather_input_again(Branch branch,
                                                               const BlockActivations& kept) const {
  const Tensor& norm = branch == Branch::attention ? kept.input_norm : kept.post_norm;
  return first_of(branch).gather_input_again(streams_.backward(), norm,
                                             kept.scratch.backward.input);
}

void DecoderBlock::weight_gradient_feed_forward(const Tensor& dy, const BlockActivations& kept,
                                                const BlockParameters& gradients,
                                                tensor::Gradient which) const {
  const GatheredTokens& gathered = kept.scratch.backward;
  down_->weight_gradient(streams_.backward(), output_gradient(Branch::feed_forward, dy, kept),
                         kept.act, gradients.down.weight, which);
  if (gradients.down.bias)
    down_->bias_gradient(streams_.backward(), before_dropout(Branch::feed_forward, dy, kept),
                         gradients.down.bias, which);
  gate_up_->weight_gradient(streams_.backward(), kept.gate_up,
                            all_tokens(kept.post_norm, gathered.input), gradients.gate_up.weight,
                            gradients.gate_up.bias, which);
}

void DecoderBlock::weight_gradient_post_norm(const BlockDeferred& deferred,
                                             const BlockParameters& gradients,
                                             tensor::Gradient which) const {
  norm_->give_gradients(streams_.backward(), deferred.dpost_norm, gradients.post_norm, which);
}

void DecoderBlock::weight_gradient_attention(const BlockActivations& kept,
                                             const BlockDeferred& deferred,
                                             const BlockParameters& gradients,
                                             tensor::Gradient which) const {
  const GatheredTokens& gathered = kept.scratch.backward;
  o_->weight_gradient(streams_.backward(), output_gradient(Branch::attention, deferred.dmid, kept),
                      kept.attn, gradients.o.weight, which);
  if (gradients.o.bias)
    o_->bias_gradient(streams_.backward(), before_dropout(Branch::attention, deferred.dmid, kept),
                      gradients.o.bias, which);
  qkv_->weight_gradient(streams_.backward(), deferred.dqkv,
                        all_tokens(kept.input_norm, gathered.input), gradients.qkv.weight,
                        gradients.qkv.bias, which);
}

void DecoderBlock::weight_gradient_input_norm(const BlockDeferred& deferred,
                                              const BlockParameters& gradients,
                                              tensor::Gradient which) const {
  norm_->give_gradients(streams_.backward(), deferred.dinput_norm, gradients.input_norm, which);
}

}  // namespace troupe::stages
