#include "stages/decoder/layers/sublayer_core.h"
#include "tensor/device/ops.h"

namespace troupe::stages {
namespace {

using tensor::Tensor;

class ActivationCore final : public SublayerCore {
 public:
  ActivationCore(const LayerSpec& spec, tensor::Device& device)
      : shape_(spec), traits_(traits_of(spec.model.kind)), ops_(device.ops()) {}

  void lay_out(Arena& arena, const ActivationGroups& groups,
               SublayerActivations& kept) const override {
    if (groups.outputs) kept.hidden = arena.take(shape_.dtype, {shape_.T, shape_.F});
  }
  void forward(tensor::Stream& stream, const SublayerCall& call) const override {
    (ops_.*traits_.activation)(stream, call.kept.inner, call.kept.hidden);
  }
  void recompute(tensor::Stream& stream, const ActivationGroups& discarded,
                 const SublayerCall& call) const override {
    if (discarded.outputs) forward(stream, call);
  }
  void backward(tensor::Stream& stream, const SublayerCall& call,
                const Tensor& dhidden) const override {
    (ops_.*traits_.activation_gradient)(stream, call.kept.inner, dhidden, call.dinner());
  }

 private:
  LayerShape shape_;
  const KindTraits& traits_;
  tensor::Ops& ops_;
};

}  // namespace

std::unique_ptr<SublayerCore> make_activation_core(const LayerSpec& spec, tensor::Device& device) {
  return std::make_unique<ActivationCore>(spec, device);
}

}  // namespace troupe::stages
