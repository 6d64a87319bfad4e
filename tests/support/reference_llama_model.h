#pragma once

#include "tests/support/reference_decoder.h"

namespace troupe::reference {

/// A Llama decoder.
class Llama final : public Decoder {
 public:
  using Decoder::Decoder;

  Values logits(const Tokens& ids) override {
    Values x =
        dropped("embedding", embedding(ids, weights["model.embed_tokens.weight"], channels()));
    layers_.assign(static_cast<Index>(config_.num_hidden_layers), {});
    for (Index i = 0; i < layers_.size(); ++i) x = forward(name_of(i), layers_[i], x);
    x_ = x;
    normed_ = rms_norm(x_, weights["model.norm.weight"], config_.rms_norm_eps);
    Values y = linear(normed_, weights[head_name()], ids.size(), channels(),
                      config_.value_head ? 1 : vocabulary());
    if (config_.value_head && config_.value_head_bias)
      for (double& value : y) value += weights["score.bias"].front();
    return y;
  }

 private:
  void backward(const Tokens& ids, const Values& dlogits) override {
    Values dx = head_backward(dlogits);
    for (Index i = layers_.size(); i-- > 0;) dx = backward(name_of(i), layers_[i], dx);
    add_gradient("model.embed_tokens.weight",
                 embedding_backward(ids, dropped("embedding", dx), vocabulary(), channels()));
  }

  /// What the backward of a layer needs from its forward.
  struct Layer {
    Values x, input_norm, qkv, attn, mid, post_norm, gate_up, act;
  };

  static std::string name_of(Index layer) { return "model.layers." + std::to_string(layer) + "."; }
  std::string head_name() const {
    if (config_.value_head) return "score.weight";
    return config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  }

  const Values& weight(const std::string& layer, const char* part) const {
    return weights.at(layer + part + ".weight");
  }
  static std::vector<std::string> names(const std::string& layer,
                                        std::initializer_list<const char*> parts,
                                        const char* field) {
    std::vector<std::string> all;
    for (const char* part : parts) all.push_back(layer + part + field);
    return all;
  }
  bool has_bias(const char* part) const {
    return std::string_view(part).starts_with("mlp") ? config_.mlp_bias : config_.attention_bias;
  }
  /// Returns x w^T + b, where w and b are the joined parts.
  Values project(const Values& x, Index tokens, const std::string& layer,
                 std::initializer_list<const char*> parts) const {
    const Values w = joined(names(layer, parts, ".weight"));
    const Index in = x.size() / tokens, out = w.size() / in;
    Values y = linear(x, w, tokens, in, out);
    if (!has_bias(*parts.begin())) return y;
    const Values b = joined(names(layer, parts, ".bias"));
    for (Index i = 0; i < y.size(); ++i) y[i] += b[i % out];
    return y;
  }
  /// Adds the gradients of the parts and returns dx.
  Values project_backward(const Values& dy, const Values& x, Index tokens, const std::string& layer,
                          std::initializer_list<const char*> parts) {
    const Values w = joined(names(layer, parts, ".weight"));
    const Index in = x.size() / tokens, out = w.size() / in;
    const LinearGradient g = linear_backward(dy, x, w, tokens, in, out);
    add_gradients(names(layer, parts, ".weight"), g.dw);
    if (has_bias(*parts.begin())) {
      Values db(out);
      for (Index i = 0; i < dy.size(); ++i) db[i % out] += dy[i];
      add_gradients(names(layer, parts, ".bias"), db);
    }
    return g.dx;
  }
  Values norm_backward(const Values& dy, const Values& x, const std::string& name) {
    const NormGradient g = rms_norm_backward(dy, x, weights.at(name), config_.rms_norm_eps);
    add_gradient(name, g.dw);
    return g.dx;
  }

  Values forward(const std::string& name, Layer& l, const Values& x) const {
    const Index tokens = x.size() / channels();
    const double eps = config_.rms_norm_eps;
    l.x = x;
    l.input_norm = rms_norm(x, weight(name, "input_layernorm"), eps);
    l.qkv = project(l.input_norm, tokens, name,
                    {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"});
    l.attn = attention(l.qkv, dims(name, tokens)).out;
    l.mid = x + dropped(name + "attention", project(l.attn, tokens, name, {"self_attn.o_proj"}));
    l.post_norm = rms_norm(l.mid, weight(name, "post_attention_layernorm"), eps);
    l.gate_up = project(l.post_norm, tokens, name, {"mlp.gate_proj", "mlp.up_proj"});
    l.act = swiglu(l.gate_up, tokens, width());
    return l.mid + dropped(name + "feed_forward", project(l.act, tokens, name, {"mlp.down_proj"}));
  }

  Values backward(const std::string& name, const Layer& l, const Values& dy) {
    const Index tokens = dy.size() / channels();
    const Values dact = project_backward(dropped(name + "feed_forward", dy), l.act, tokens, name,
                                         {"mlp.down_proj"});
    const Values dgate_up = swiglu_backward(l.gate_up, dact, tokens, width());
    const Values dpost_norm =
        project_backward(dgate_up, l.post_norm, tokens, name, {"mlp.gate_proj", "mlp.up_proj"});
    const Values dmid =
        dy + norm_backward(dpost_norm, l.mid, name + "post_attention_layernorm.weight");
    const Values dattn = project_backward(dropped(name + "attention", dmid), l.attn, tokens, name,
                                          {"self_attn.o_proj"});
    const Values dqkv = attention_backward(dattn, l.qkv, dims(name, tokens));
    const Values dinput_norm =
        project_backward(dqkv, l.input_norm, tokens, name,
                         {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"});
    return dmid + norm_backward(dinput_norm, l.x, name + "input_layernorm.weight");
  }

  Values head_backward(const Values& dlogits) {
    const Index tokens = x_.size() / channels();
    const LinearGradient g =
        linear_backward(dlogits, normed_, weights[head_name()], tokens, channels(), vocabulary());
    add_gradient(head_name(), g.dw);
    return norm_backward(g.dx, x_, "model.norm.weight");
  }

  std::vector<Layer> layers_;
  Values x_;
  Values normed_;
};

}  // namespace troupe::reference
