#pragma once

#include <memory>
#include <vector>

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/sublayer_tensors.h"
#include "tensor/device/device.h"

namespace troupe::stages {

/// What a sublayer computes between its two products: hidden [T, O] from the first one, [T, I]. One
/// object serves every layer of a stage.
class SublayerCore {
 public:
  virtual ~SublayerCore() = default;
  /// Takes memory for what is kept of these groups, beyond `inner`.
  virtual void lay_out(Arena& arena, const ActivationGroups& groups,
                       SublayerActivations& kept) const = 0;
  /// Takes memory for what I keeps of it for W: the gradient of `inner`, unless it replaces
  /// `inner`, and those of parameters.
  virtual void lay_out_deferred(Arena&, SublayerDeferred&) const {}
  /// Lets what was laid out be of fewer tokens.
  virtual void use_tokens(std::int64_t, SublayerActivations&) const {}
  /// Computes the shard's parts of the sums that forward() reads, if it reads any.
  virtual void begin_forward(tensor::Stream&, const SublayerCall&) const {}
  virtual void forward(tensor::Stream& stream, const SublayerCall& call) const = 0;
  /// Fills what was discarded of these groups again, in the place of a forward.
  virtual void recompute(tensor::Stream& stream, const ActivationGroups& discarded,
                         const SublayerCall& call) const = 0;
  /// call.dinner() [T, I] from dhidden [T, O]: all of it, or if sums over the shards are still to
  /// be formed, the parts of these.
  virtual void backward(tensor::Stream& stream, const SublayerCall& call,
                        const tensor::Tensor& dhidden) const = 0;
  /// Completes it.
  virtual void finish_backward(tensor::Stream&, const SublayerCall&) const {}
  /// Puts the gradients of its parameters into the sums of the step.
  virtual void weight_gradient(tensor::Stream&, const SublayerCall&, const SublayerParameters&,
                               tensor::Gradient) const {}
  /// Scratch memory, which nothing else uses.
  virtual tensor::ScratchBytes scratch_bytes() const { return {}; }
  virtual void set_scratch(const tensor::Scratch&) const {}
};

/// Attention as each layer of the model has it (SublayerWeights::attention), with the norms of
/// queries and keys.
std::unique_ptr<SublayerCore> make_attention_core(const LayerSpec& spec, tensor::Device& device);
/// The activation of the model's kind.
std::unique_ptr<SublayerCore> make_activation_core(const LayerSpec& spec, tensor::Device& device);

/// By layer of the model: its number among attentions_of().
std::vector<std::size_t> attention_numbers(const ModelConfig& model);

}  // namespace troupe::stages
