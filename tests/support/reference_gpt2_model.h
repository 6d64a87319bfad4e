#pragma once

#include "tests/support/reference_decoder.h"
#include "tests/support/reference_gpt2_ops.h"

namespace troupe::reference {

/// A GPT-2 decoder.
class Gpt2 final : public Decoder {
 public:
  using Decoder::Decoder;

  Values logits(const Tokens& ids) override {
    Values x = add_positions(embedding(ids, weights["transformer.wte.weight"], channels()),
                             used_positions(), 0, channels());
    x = dropped("embedding", x);
    layers_.assign(static_cast<Index>(config_.num_hidden_layers), {});
    for (Index i = 0; i < layers_.size(); ++i) x = forward(name_of(i), layers_[i], x);
    x_ = x;
    normed_ = norm(x_, "transformer.ln_f");
    return linear(normed_, weights[head_name()], ids.size(), channels(), vocabulary());
  }

 private:
  /// What the backward of a layer needs from its forward.
  struct Layer {
    Values x, norm1, qkv, attn, mid, norm2, inner, act;
  };
  using Names = std::vector<std::string>;

  static std::string name_of(Index layer) { return "transformer.h." + std::to_string(layer) + "."; }
  std::string head_name() const {
    return config_.tie_word_embeddings ? "transformer.wte.weight" : "lm_head.weight";
  }
  static Names qkv(const std::string& layer) {
    return {layer + "attn.c_attn.q", layer + "attn.c_attn.k", layer + "attn.c_attn.v"};
  }
  static Names with(const Names& modules, const char* field) {
    Names names;
    for (const std::string& module : modules) names.push_back(module + field);
    return names;
  }
  /// The rows of the table of positions that samples of seq_len_ tokens use.
  Values used_positions() const {
    const Values& all = weights.at("transformer.wpe.weight");
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(seq_len_ * channels())};
  }

  Values norm(const Values& x, const std::string& module) const {
    return layer_norm(x, weights.at(module + ".weight"), weights.at(module + ".bias"),
                      config_.layer_norm_epsilon);
  }
  Values norm_backward(const Values& dy, const Values& x, const std::string& module) {
    const auto g =
        layer_norm_backward(dy, x, weights.at(module + ".weight"), config_.layer_norm_epsilon);
    add_gradient(module + ".weight", g.dw);
    add_gradient(module + ".bias", g.db);
    return g.dx;
  }
  /// Returns x w^T + b, where w and b are those of the modules, joined.
  Values project(const Values& x, Index tokens, const Names& modules) const {
    const Values w = joined(with(modules, ".weight"));
    const Index in = x.size() / tokens;
    return add_bias(linear(x, w, tokens, in, w.size() / in), joined(with(modules, ".bias")));
  }
  Values project_backward(const Values& dy, const Values& x, Index tokens, const Names& modules) {
    const Values w = joined(with(modules, ".weight"));
    const Index in = x.size() / tokens;
    const LinearGradient g = linear_backward(dy, x, w, tokens, in, w.size() / in);
    add_gradients(with(modules, ".weight"), g.dw);
    add_gradients(with(modules, ".bias"), bias_gradient(dy, w.size() / in));
    return g.dx;
  }

  Values forward(const std::string& name, Layer& l, const Values& x) const {
    const Index tokens = x.size() / channels();
    l.x = x;
    l.norm1 = norm(x, name + "ln_1");
    l.qkv = project(l.norm1, tokens, qkv(name));
    l.attn = attention(l.qkv, dims(name, tokens)).out;
    l.mid = x + dropped(name + "attention", project(l.attn, tokens, {name + "attn.c_proj"}));
    l.norm2 = norm(l.mid, name + "ln_2");
    l.inner = project(l.norm2, tokens, {name + "mlp.c_fc"});
    l.act = gelu(l.inner);
    return l.mid + dropped(name + "feed_forward", project(l.act, tokens, {name + "mlp.c_proj"}));
  }

  Values backward(const std::string& name, const Layer& l, const Values& dy) {
    const Index tokens = dy.size() / channels();
    const Values dact =
        project_backward(dropped(name + "feed_forward", dy), l.act, tokens, {name + "mlp.c_proj"});
    const Values dinner = gelu_backward(l.inner, dact);
    const Values dnorm2 = project_backward(dinner, l.norm2, tokens, {name + "mlp.c_fc"});
    const Values dmid = dy + norm_backward(dnorm2, l.mid, name + "ln_2");
    const Values dattn =
        project_backward(dropped(name + "attention", dmid), l.attn, tokens, {name + "attn.c_proj"});
    const Values dqkv = attention_backward(dattn, l.qkv, dims(name, tokens));
    const Values dnorm1 = project_backward(dqkv, l.norm1, tokens, qkv(name));
    return dmid + norm_backward(dnorm1, l.x, name + "ln_1");
  }

  void backward(const Tokens& ids, const Values& dlogits) override {
    const LinearGradient head = linear_backward(dlogits, normed_, weights[head_name()], ids.size(),
                                                channels(), vocabulary());
    add_gradient(head_name(), head.dw);
    Values dx = norm_backward(head.dx, x_, "transformer.ln_f");
    for (Index i = layers_.size(); i-- > 0;) dx = backward(name_of(i), layers_[i], dx);
    dx = dropped("embedding", dx);
    add_gradient("transformer.wte.weight", embedding_backward(ids, dx, vocabulary(), channels()));
    Values positions = positions_backward(dx, 0, seq_len_, channels());
    positions.resize(weights.at("transformer.wpe.weight").size());
    add_gradient("transformer.wpe.weight", positions);
  }

  std::vector<Layer> layers_;
  Values x_;
  Values normed_;
};

}  // namespace troupe::reference
