#pragma once

#include <string>
#include <vector>

#include "stages/model/computation.h"
#include "tests/support/reference_decoder.h"
#include "tests/support/reference_experts.h"
#include "tests/support/reference_family_ops.h"

namespace troupe::reference {

/// A decoder of Llama's kind, or of a family whose layers are variants of Llama's: norms after
/// sublayers or of queries and keys, windows, caps and multipliers, as the kind's traits say.
class Llama final : public Decoder {
 public:
  Llama(const stages::ModelConfig& config, std::int64_t seq_len)
      : Decoder(config, seq_len), infos_(parameters_of(config)) {}

  Values logits(const Tokens& ids) override {
    Values x = scaled(embedding(ids, weights[table()], channels()), embedding_scale());
    x = dropped("embedding", std::move(x));
    layers_.assign(static_cast<Index>(config_.num_hidden_layers), {});
    balances.clear();
    router_loss = 0;
    for (Index i = 0; i < layers_.size(); ++i) {
      x = forward(attention_of(i), layers_[i].attention, x);
      x = forward(feed_forward_of(i), layers_[i].feed_forward, x);
    }
    x_ = x;
    normed_ = norm(x_, names(Module::final_norm, Field::weight));
    Values y = linear(normed_, weights[head_name()], ids.size(), channels(),
                      config_.value_head ? 1 : vocabulary());
    if (config_.value_head && config_.value_head_bias)
      for (double& value : y) value += weights["score.bias"].front();
    return logits_ = soft_cap(scaled(y, logit_scale(config_)), logit_cap(config_));
  }

 private:
  using Module = stages::Module;
  using Field = stages::Field;
  using Names = std::vector<std::string>;

  /// What the backward of a sublayer needs from its forward.
  struct Kept {
    Values x, norm, raw, inner, hidden, branch;
    Mixture::Kept mixture;
  };
  struct Layer {
    Kept attention, feed_forward;
  };
  /// Which sublayer it is.
  struct Site {
    Index layer;
    Module norm, module, end_norm;
    const char* dropout;
    bool is_attention() const { return module == Module::attention; }
    std::string prefix() const { return "model.layers." + std::to_string(layer) + "."; }
  };
  static Site attention_of(Index layer) {
    return {layer, Module::attention_norm, Module::attention, Module::attention_end_norm,
            "attention"};
  }
  static Site feed_forward_of(Index layer) {
    return {layer, Module::feed_forward_norm, Module::feed_forward, Module::feed_forward_end_norm,
            "feed_forward"};
  }

  /// The parameters of a field in their order, which one product computes with.
  Names names(Module module, Field field, Index layer = 0) const {
    const bool is_of_layer = module > Module::embedding && module < Module::final_norm;
    Names all;
    for (const stages::ParameterInfo& info : infos_)
      if (info.module == module && info.field == field &&
          (!is_of_layer || info.layer == static_cast<int>(layer)))
        all.push_back(info.name);
    return all;
  }
  std::string table() const { return names(Module::embedding, Field::weight).front(); }
  std::string head_name() const {
    const Names head = names(Module::head, Field::weight);
    return head.empty() ? table() : head.front();
  }
  const stages::KindTraits& traits() const { return traits_of(config_.kind); }
  double plus() const { return traits().norm_form == stages::NormForm::one_plus ? 1 : 0; }
  double embedding_scale() const {
    if (traits().scales_embeddings) return std::sqrt(static_cast<double>(config_.hidden_size));
    return config_.embedding_multiplier;
  }

  /// The identity without a name.
  Values norm(const Values& x, const Names& name) const {
    if (name.empty()) return x;
    return rms_norm(x, weights.at(name.front()), config_.rms_norm_eps, plus());
  }
  Values norm_backward(const Values& dy, const Values& x, const Names& name) {
    if (name.empty()) return dy;
    const NormGradient g =
        rms_norm_backward(dy, x, weights.at(name.front()), config_.rms_norm_eps, plus());
    add_gradient(name.front(), g.dw);
    return g.dx;
  }

  /// Returns x w^T + b of a module's product.
  Values project(const Values& x, Index tokens, const Names& weight, const Names& bias) const {
    const Values w = joined(weight);
    const Index in = x.size() / tokens;
    const Values y = linear(x, w, tokens, in, w.size() / in);
    return bias.empty() ? y : add_bias(y, joined(bias));
  }
  Values project_backward(const Values& dy, const Values& x, Index tokens, const Names& weight,
                          const Names& bias) {
    const Values w = joined(weight);
    const Index in = x.size() / tokens, out = w.size() / in;
    const LinearGradient g = linear_backward(dy, x, w, tokens, in, out);
    add_gradients(weight, g.dw);
    if (!bias.empty()) add_gradients(bias, bias_gradient(dy, out));
    return g.dx;
  }

  /// The heads that the norm of queries, or of keys, treats alike.
  Heads heads(Field field) const {
    const bool are_queries = field == Field::query_norm;
    const auto queries = static_cast<Index>(config_.num_attention_heads);
    const auto keys = static_cast<Index>(config_.num_key_value_heads);
    const auto dim = static_cast<Index>(config_.head_dim);
    const Index first = are_queries ? 0 : queries * dim, count = are_queries ? queries : keys;
    const Index row = (queries + 2 * keys) * dim;
    if (traits().head_norm == stages::HeadNorm::whole_width) return {row, first, 1, count * dim};
    return {row, first, count, dim};
  }
  Values head_norms(Values qkv, Index layer) const {
    for (const Field field : {Field::query_norm, Field::key_norm}) {
      const Values normed =
          norm(heads_of(qkv, heads(field)), names(Module::attention, field, layer));
      put_heads(normed, heads(field), qkv);
    }
    return qkv;
  }
  Values head_norms_backward(Values dqkv, const Values& raw, Index layer) {
    for (const Field field : {Field::query_norm, Field::key_norm}) {
      const Heads of = heads(field);
      const Values dheads = norm_backward(heads_of(dqkv, of), heads_of(raw, of),
                                          names(Module::attention, field, layer));
      put_heads(dheads, of, dqkv);
    }
    return dqkv;
  }

  AttentionDims dims_of(const Site& site, Index tokens) const {
    const auto attention = stages::attention_of(config_, static_cast<std::int64_t>(site.layer));
    AttentionDims of = dims(site.prefix(), tokens);
    of.rotary = attention.rotary;
    of.window = static_cast<Index>(attention.window);
    of.scale = attention_scale(config_);
    of.cap = attention_cap(config_);
    return of;
  }
  bool has_geglu() const { return traits().activation == &tensor::Ops::geglu; }
  Values core(const Site& site, const Values& inner, Index tokens) const {
    if (site.is_attention()) return attention(inner, dims_of(site, tokens)).out;
    return has_geglu() ? geglu(inner, tokens, width()) : swiglu(inner, tokens, width());
  }
  Values core_backward(const Site& site, const Kept& s, const Values& dhidden, Index tokens) {
    if (site.is_attention())
      return head_norms_backward(attention_backward(dhidden, s.inner, dims_of(site, tokens)), s.raw,
                                 site.layer);
    return has_geglu() ? geglu_backward(s.inner, dhidden, tokens, width())
                       : swiglu_backward(s.inner, dhidden, tokens, width());
  }

  bool has_experts(const Site& site) const {
    return !site.is_attention() && is_routed(config_, static_cast<std::int64_t>(site.layer));
  }
  void project_through(const Site& site, Kept& s, Index tokens) {
    const auto field = [&](Field f) { return names(site.module, f, site.layer); };
    if (has_experts(site)) {
      const Mixture experts = mixture_of(infos_, static_cast<int>(site.layer));
      s.branch = experts.forward(s.norm, s.mixture);
      return add_router_loss(experts, s.mixture);
    }
    s.raw = project(s.norm, tokens, field(Field::weight), field(Field::bias));
    s.inner = site.is_attention() ? head_norms(s.raw, site.layer) : s.raw;
    s.hidden = core(site, s.inner, tokens);
    s.branch = project(s.hidden, tokens, field(Field::out_weight), field(Field::out_bias));
  }
  Values project_through_backward(const Site& site, const Kept& s, const Values& dbranch,
                                  Index tokens) {
    if (has_experts(site))
      return mixture_backward(infos_, static_cast<int>(site.layer), s.mixture, dbranch);
    const auto field = [&](Field f) { return names(site.module, f, site.layer); };
    const Values dhidden = project_backward(dbranch, s.hidden, tokens, field(Field::out_weight),
                                            field(Field::out_bias));
    const Values draw = core_backward(site, s, dhidden, tokens);
    return project_backward(draw, s.norm, tokens, field(Field::weight), field(Field::bias));
  }

  Values forward(const Site& site, Kept& s, const Values& x) {
    const Index tokens = x.size() / channels();
    s.x = x;
    s.norm = norm(x, names(site.norm, Field::weight, site.layer));
    project_through(site, s, tokens);
    const Values y = norm(s.branch, names(site.end_norm, Field::weight, site.layer));
    return x + scaled(dropped(site.prefix() + site.dropout, y), branch_scale(config_));
  }

  Values backward(const Site& site, const Kept& s, const Values& dy) {
    const Index tokens = dy.size() / channels();
    const Values dropped_dy =
        dropped(site.prefix() + site.dropout, scaled(dy, branch_scale(config_)));
    const Values dbranch =
        norm_backward(dropped_dy, s.branch, names(site.end_norm, Field::weight, site.layer));
    const Values dnorm = project_through_backward(site, s, dbranch, tokens);
    return dy + norm_backward(dnorm, s.x, names(site.norm, Field::weight, site.layer));
  }

  void backward(const Tokens& ids, const Values& dlogits) override {
    Values dx = head_backward(dlogits);
    for (Index i = layers_.size(); i-- > 0;) {
      dx = backward(feed_forward_of(i), layers_[i].feed_forward, dx);
      dx = backward(attention_of(i), layers_[i].attention, dx);
    }
    dx = scaled(dropped("embedding", dx), embedding_scale());
    add_gradient(table(), embedding_backward(ids, dx, vocabulary(), channels()));
  }

  Values head_backward(const Values& dlogits) {
    const Values dy =
        scaled(soft_cap_backward(logits_, dlogits, logit_cap(config_)), logit_scale(config_));
    const LinearGradient g = linear_backward(dy, normed_, weights[head_name()],
                                             x_.size() / channels(), channels(), vocabulary());
    add_gradient(head_name(), g.dw);
    return norm_backward(g.dx, x_, names(Module::final_norm, Field::weight));
  }

  const std::vector<stages::ParameterInfo> infos_;
  std::vector<Layer> layers_;
  Values x_, normed_, logits_;
};

}  // namespace troupe::reference
