#pragma once

#include <memory>

#include "stages/decoder/layers/arena.h"
#include "stages/decoder/layers/sublayer_tensors.h"
#include "tensor/device/device.h"

namespace troupe::stages {

/// What a sublayer computes between its two products: hidden [T, O] from inner [T, I]. One object
/// serves every layer of a stage.
class SublayerCore {
 public:
  virtual ~SublayerCore() = default;
  /// Takes memory for what is kept of these groups, beyond `inner`.
  virtual void lay_out(Arena& arena, const ActivationGroups& groups,
                       SublayerActivations& kept) const = 0;
  /// Takes memory for what I keeps of it for W: the gradient of `inner`, unless it replaces
  /// `inner`.
  virtual void lay_out_deferred(Arena&, SublayerDeferred&) const {}
  /// Lets what was laid out be of fewer tokens.
  virtual void use_tokens(std::int64_t, SublayerActivations&) const {}
  virtual void forward(tensor::Stream& stream, const SublayerCall& call) const = 0;
  /// Fills what was discarded of these groups again, in the place of a forward.
  virtual void recompute(tensor::Stream& stream, const ActivationGroups& discarded,
                         const SublayerCall& call) const = 0;
  /// call.dinner() [T, I] from dhidden [T, O].
  virtual void backward(tensor::Stream& stream, const SublayerCall& call,
                        const tensor::Tensor& dhidden) const = 0;
  /// Scratch memory, which nothing else uses.
  virtual tensor::ScratchBytes scratch_bytes() const { return {}; }
  virtual void set_scratch(const tensor::Scratch&) const {}
};

std::unique_ptr<SublayerCore> make_attention_core(const LayerSpec& spec, tensor::Device& device);
/// The activation of the model's kind.
std::unique_ptr<SublayerCore> make_activation_core(const LayerSpec& spec, tensor::Device& device);

}  // namespace troupe::stages
