#include "stages/decoder/layers/sublayer_core.h"

#include "tensor/device/ops.h"

namespace troupe::stages {
namespace {

using tensor::DType;
using tensor::Tensor;

tensor::AttentionShape attention_shape(const LayerSpec& spec, const LayerShape& shape) {
  const ModelConfig& model = spec.model;
  const bool documents = spec.documents != Documents::joined;
  return {.batch = documents ? (shape.T + spec.seq_len - 1) / spec.seq_len : spec.micro,
          .seq_len = spec.seq_len,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = model.head_dim,
          .dtype = model.dtype,
          .rotary = rotary_of(model),
          .documents = documents,
          .first_head = spec.parallel.shard * shape.heads};
}

class AttentionCore final : public SublayerCore {
 public:
  AttentionCore(const LayerSpec& spec, tensor::Device& device)
      : shape_(spec), attention_(device.make_attention(attention_shape(spec, shape_))) {}

  void lay_out(Arena& arena, const ActivationGroups& groups,
               SublayerActivations& kept) const override {
    if (groups.inputs) kept.saved = arena.take(shape_.dtype, {attention_->saved_elements()});
    if (!groups.core) return;
    kept.lse = arena.take(DType::f32, {shape_.T * shape_.heads});
    kept.hidden = arena.take(shape_.dtype, {shape_.T, shape_.A});
  }
  void lay_out_deferred(Arena& arena, SublayerDeferred& deferred) const override {
    deferred.dinner = arena.take(shape_.dtype, {shape_.T, shape_.Q});
  }
  void use_tokens(std::int64_t tokens, SublayerActivations& kept) const override {
    use_rows(kept.lse, tokens * shape_.heads);
  }
  void forward(tensor::Stream& stream, const SublayerCall& call) const override {
    const SublayerActivations& kept = call.kept;
    attention_->forward(stream, kept.inner, kept.saved, kept.lse, kept.hidden, kept.attention);
  }
  void recompute(tensor::Stream& stream, const ActivationGroups& discarded,
                 const SublayerCall& call) const override {
    const SublayerActivations& kept = call.kept;
    if (discarded.core)
      attention_->recompute(stream, kept.saved, kept.lse, kept.hidden, kept.attention);
  }
  void backward(tensor::Stream& stream, const SublayerCall& call,
                const Tensor& dhidden) const override {
    const SublayerActivations& kept = call.kept;
    attention_->backward(stream, kept.saved, kept.lse, kept.hidden, dhidden, call.dinner(),
                         kept.attention);
  }
  tensor::ScratchBytes scratch_bytes() const override { return attention_->scratch_bytes(); }
  void set_scratch(const tensor::Scratch& scratch) const override {
    attention_->set_scratch(scratch);
  }

 private:
  LayerShape shape_;
  std::unique_ptr<tensor::Attention> attention_;
};

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

std::unique_ptr<SublayerCore> make_attention_core(const LayerSpec& spec, tensor::Device& device) {
  return std::make_unique<AttentionCore>(spec, device);
}

std::unique_ptr<SublayerCore> make_activation_core(const LayerSpec& spec, tensor::Device& device) {
  return std::make_unique<ActivationCore>(spec, device);
}

}  // namespace troupe::stages
