#include <algorithm>

#include "stages/decoder/layers/head_norms.h"
#include "stages/decoder/layers/sublayer_core.h"
#include "stages/model/computation.h"

namespace troupe::stages {
namespace {

using tensor::DType;
using tensor::Tensor;

tensor::AttentionShape attention_shape(const LayerSpec& spec, const LayerShape& shape,
                                       const LayerAttention& attention) {
  const ModelConfig& model = spec.model;
  const bool documents = spec.documents != Documents::joined;
  return {.batch = documents ? (shape.T + spec.seq_len - 1) / spec.seq_len : spec.micro,
          .seq_len = spec.seq_len,
          .heads = shape.heads,
          .kv_heads = shape.kv_heads,
          .head_dim = model.head_dim,
          .dtype = model.dtype,
          .rotary = attention.rotary,
          .documents = documents,
          .first_head = spec.parallel.shard * shape.heads,
          .window = attention.window < spec.seq_len ? attention.window : 0,
          .scale = static_cast<float>(attention_scale(model)),
          .cap = static_cast<float>(attention_cap(model))};
}

std::size_t on_boundary(std::size_t bytes) {
  return (bytes + Arena::kAlignment - 1) / Arena::kAlignment * Arena::kAlignment;
}

/// The attentions of a model's layers, one object for each different one.
class AttentionCore final : public SublayerCore {
 public:
  AttentionCore(const LayerSpec& spec, tensor::Device& device) : shape_(spec) {
    for (const LayerAttention& attention : attentions_of(spec.model))
      attentions_.push_back(device.make_attention(attention_shape(spec, shape_, attention)));
  }

  void lay_out(Arena& arena, const ActivationGroups& groups,
               SublayerActivations& kept) const override {
    if (groups.inputs) {
      std::int64_t elements = 0;
      for (const auto& one : attentions_) elements = std::max(elements, one->saved_elements());
      kept.saved = arena.take(shape_.dtype, {elements});
    }
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
    of(call).forward(stream, kept.inner, saved(call), kept.lse, kept.hidden, kept.attention);
  }
  void recompute(tensor::Stream& stream, const ActivationGroups& discarded,
                 const SublayerCall& call) const override {
    const SublayerActivations& kept = call.kept;
    if (discarded.core)
      of(call).recompute(stream, saved(call), kept.lse, kept.hidden, kept.attention);
  }
  void backward(tensor::Stream& stream, const SublayerCall& call,
                const Tensor& dhidden) const override {
    const SublayerActivations& kept = call.kept;
    of(call).backward(stream, saved(call), kept.lse, kept.hidden, dhidden, call.dinner(),
                      kept.attention);
  }
  /// Each has tables of its own in that of forwards.
  tensor::ScratchBytes scratch_bytes() const override {
    tensor::ScratchBytes all;
    for (const auto& one : attentions_) {
      const auto [forward, backward] = one->scratch_bytes();
      all.forward = on_boundary(all.forward) + forward;
      all.backward = std::max(all.backward, backward);
    }
    return all;
  }
  void set_scratch(const tensor::Scratch& scratch) const override {
    std::size_t begin = 0;
    for (const auto& one : attentions_) {
      begin = on_boundary(begin);
      one->set_scratch({.forward = static_cast<std::byte*>(scratch.forward) + begin,
                        .backward = scratch.backward});
      begin += one->scratch_bytes().forward;
    }
  }

 private:
  tensor::Attention& of(const SublayerCall& call) const {
    return *attentions_[call.weights.attention];
  }
  Tensor saved(const SublayerCall& call) const {
    return {call.kept.saved.data, call.kept.saved.dtype, {of(call).saved_elements()}};
  }

  LayerShape shape_;
  std::vector<std::unique_ptr<tensor::Attention>> attentions_;
};

/// Attention of queries and keys that are normed first.
class NormedAttentionCore final : public SublayerCore {
 public:
  NormedAttentionCore(const LayerSpec& spec, tensor::Device& device)
      : shape_(spec), ops_(device.ops()), norms_(spec, device), attention_(spec, device) {}

  void lay_out(Arena& arena, const ActivationGroups& groups,
               SublayerActivations& kept) const override {
    attention_.lay_out(arena, groups, kept);
    if (!groups.inputs) return;
    kept.raw = arena.take(shape_.dtype, {shape_.T, shape_.Q});
    if (norms_.sums_heads()) kept.head_squares = arena.take(DType::f32, {2 * shape_.T});
  }
  void lay_out_deferred(Arena& arena, SublayerDeferred& deferred) const override {
    attention_.lay_out_deferred(arena, deferred);
    deferred.dquery_norm = arena.take(DType::f32, {norms_.query_size()});
    deferred.dkey_norm = arena.take(DType::f32, {norms_.key_size()});
  }
  void use_tokens(std::int64_t tokens, SublayerActivations& kept) const override {
    attention_.use_tokens(tokens, kept);
    use_rows(kept.raw, tokens);
    use_rows(kept.head_squares, 2 * tokens);
    use_rows(kept.scratch.head_dots, 2 * tokens);
  }
  void begin_forward(tensor::Stream& stream, const SublayerCall& call) const override {
    norms_.sum_squares(stream, call.kept.raw, call.kept.head_squares);
  }
  void forward(tensor::Stream& stream, const SublayerCall& call) const override {
    const SublayerActivations& kept = call.kept;
    const auto& weights = call.weights.master;
    norms_.forward(stream, weights.query_norm, weights.key_norm, kept.raw, kept.head_squares,
                   kept.inner);
    attention_.forward(stream, call);
  }
  void recompute(tensor::Stream& stream, const ActivationGroups& discarded,
                 const SublayerCall& call) const override {
    attention_.recompute(stream, discarded, call);
  }
  void backward(tensor::Stream& stream, const SublayerCall& call,
                const Tensor& dhidden) const override {
    attention_.backward(stream, call, dhidden);
    norms_.sum_dots(stream, backward_of(call));
    if (!norms_.sums_heads()) backward_norms(stream, call);
  }
  void finish_backward(tensor::Stream& stream, const SublayerCall& call) const override {
    if (norms_.sums_heads()) backward_norms(stream, call);
  }
  void weight_gradient(tensor::Stream& stream, const SublayerCall& call,
                       const SublayerParameters& gradients, tensor::Gradient which) const override {
    const auto give = [&](const Tensor& x, const Tensor& sum) {
      which == tensor::Gradient::first ? ops_.copy(stream, x, sum)
                                       : ops_.accumulate(stream, x, sum);
    };
    give(call.deferred->dquery_norm, gradients.query_norm);
    give(call.deferred->dkey_norm, gradients.key_norm);
  }
  tensor::ScratchBytes scratch_bytes() const override { return attention_.scratch_bytes(); }
  void set_scratch(const tensor::Scratch& scratch) const override {
    attention_.set_scratch(scratch);
  }

 private:
  HeadNorms::Backward backward_of(const SublayerCall& call) const {
    const auto& weights = call.weights.master;
    return {.raw = call.kept.raw,
            .squares = call.kept.head_squares,
            .query_weight = weights.query_norm,
            .key_weight = weights.key_norm,
            .dots = call.kept.scratch.head_dots,
            .dinner = call.dinner()};
  }
  void backward_norms(tensor::Stream& stream, const SublayerCall& call) const {
    norms_.backward(stream, backward_of(call), call.deferred->dquery_norm,
                    call.deferred->dkey_norm);
  }

  LayerShape shape_;
  tensor::Ops& ops_;
  HeadNorms norms_;
  AttentionCore attention_;
};

}  // namespace

std::unique_ptr<SublayerCore> make_attention_core(const LayerSpec& spec, tensor::Device& device) {
  if (traits_of(spec.model.kind).head_norm == HeadNorm::none)
    return std::make_unique<AttentionCore>(spec, device);
  return std::make_unique<NormedAttentionCore>(spec, device);
}

std::vector<std::size_t> attention_numbers(const ModelConfig& model) {
  const std::vector<LayerAttention> different = attentions_of(model);
  std::vector<std::size_t> numbers;
  for (std::int64_t layer = 0; layer < model.num_hidden_layers; ++layer) {
    const auto found = std::ranges::find(different, attention_of(model, layer));
    numbers.push_back(static_cast<std::size_t>(found - different.begin()));
  }
  return numbers;
}

}  // namespace troupe::stages
