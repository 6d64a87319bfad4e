#pragma once

#include <map>
#include <string>
#include <vector>

#include "stages/model_config.h"
#include "tests/support/reference_ops.h"

namespace troupe::reference {

inline Values operator+(Values a, const Values& b) {
  for (Index i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// A whole Llama decoder, forward and backward, in double precision.
class Model {
 public:
  using Tokens = std::vector<std::int32_t>;

  /// A model for samples of seq_len tokens, with weights and gradients of zero.
  Model(const stages::ModelConfig& config, std::int64_t seq_len)
      : config_(config), seq_len_(static_cast<Index>(seq_len)) {
    for (const stages::ParameterInfo& info : parameters_of(config)) {
      weights[info.name] = Values(static_cast<Index>(info.shape.num_elements()));
      gradients[info.name] = weights[info.name];
    }
  }

  /// The weights by Hugging Face name.
  std::map<std::string, Values> weights;
  std::map<std::string, Values> gradients;  ///< sums so far, by the same names

  /// Computes the logits [tokens, vocab].
  Values logits(const Tokens& ids) {
    Values x = embedding(ids, weights["model.embed_tokens.weight"], channels());
    layers_.assign(static_cast<Index>(config_.num_hidden_layers), {});
    for (Index i = 0; i < layers_.size(); ++i) x = forward(name_of(i), layers_[i], x);
    x_ = x;
    normed_ = rms_norm(x_, weights["model.norm.weight"], config_.rms_norm_eps);
    return linear(normed_, weights[head_name()], ids.size(), channels(), vocabulary());
  }

  /// Sum of the tokens' losses.
  double loss(const Tokens& ids, const Tokens& targets) {
    return cross_entropy(logits(ids), targets, vocabulary(), 1).loss;
  }

  /// Sum of the tokens' losses. Adds the gradients of `scale` times this sum.
  double train(const Tokens& ids, const Tokens& targets, double scale) {
    const CrossEntropy head = cross_entropy(logits(ids), targets, vocabulary(), scale);
    Values dx = head_backward(head.dlogits);
    for (Index i = layers_.size(); i-- > 0;) dx = backward(name_of(i), layers_[i], dx);
    add_gradient("model.embed_tokens.weight",
                 embedding_backward(ids, dx, vocabulary(), channels()));
    return head.loss;
  }

 private:
  /// What the backward of a layer needs from its forward.
  struct Layer {
    Values x, input_norm, qkv, attn, mid, post_norm, gate_up, act;
  };

  Index channels() const { return static_cast<Index>(config_.hidden_size); }
  Index vocabulary() const { return static_cast<Index>(config_.vocab_size); }
  Index width() const { return static_cast<Index>(config_.intermediate_size); }
  AttentionDims dims(Index tokens) const {
    return {.batch = tokens / seq_len_,
            .seq_len = seq_len_,
            .heads = static_cast<Index>(config_.num_attention_heads),
            .kv_heads = static_cast<Index>(config_.num_key_value_heads),
            .head_dim = static_cast<Index>(config_.head_dim),
            .rope_theta = config_.rope_theta};
  }
  static std::string name_of(Index layer) { return "model.layers." + std::to_string(layer) + "."; }
  std::string head_name() const {
    return config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  }

  const Values& weight(const std::string& layer, const char* part) const {
    return weights.at(layer + part + ".weight");
  }
  void add_gradient(const std::string& name, const Values& dw) {
    gradients.at(name) = gradients.at(name) + dw;
  }
  /// Joins the rows of several matrices, one matrix after the other.
  Values joined(const std::string& layer, std::initializer_list<const char*> parts) const {
    Values rows;
    for (const char* part : parts) {
      const Values& w = weight(layer, part);
      rows.insert(rows.end(), w.begin(), w.end());
    }
    return rows;
  }
  /// Returns x w^T, where w is the joined parts.
  Values project(const Values& x, Index tokens, const std::string& layer,
                 std::initializer_list<const char*> parts) const {
    const Values w = joined(layer, parts);
    const Index in = x.size() / tokens;
    return linear(x, w, tokens, in, w.size() / in);
  }
  /// Adds the gradients of the parts and returns dx.
  Values project_backward(const Values& dy, const Values& x, Index tokens, const std::string& layer,
                          std::initializer_list<const char*> parts) {
    const Values w = joined(layer, parts);
    const Index in = x.size() / tokens;
    const LinearGradient g = linear_backward(dy, x, w, tokens, in, w.size() / in);
    auto row = g.dw.begin();
    for (const char* part : parts) {
      const auto size = static_cast<std::ptrdiff_t>(weight(layer, part).size());
      add_gradient(layer + part + ".weight", Values(row, row + size));
      row += size;
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
    l.attn = attention(l.qkv, dims(tokens)).out;
    l.mid = x + project(l.attn, tokens, name, {"self_attn.o_proj"});
    l.post_norm = rms_norm(l.mid, weight(name, "post_attention_layernorm"), eps);
    l.gate_up = project(l.post_norm, tokens, name, {"mlp.gate_proj", "mlp.up_proj"});
    l.act = swiglu(l.gate_up, tokens, width());
    return l.mid + project(l.act, tokens, name, {"mlp.down_proj"});
  }

  Values backward(const std::string& name, const Layer& l, const Values& dy) {
    const Index tokens = dy.size() / channels();
    const Values dact = project_backward(dy, l.act, tokens, name, {"mlp.down_proj"});
    const Values dgate_up = swiglu_backward(l.gate_up, dact, tokens, width());
    const Values dpost_norm =
        project_backward(dgate_up, l.post_norm, tokens, name, {"mlp.gate_proj", "mlp.up_proj"});
    const Values dmid =
        dy + norm_backward(dpost_norm, l.mid, name + "post_attention_layernorm.weight");
    const Values dattn = project_backward(dmid, l.attn, tokens, name, {"self_attn.o_proj"});
    const Values dqkv = attention_backward(dattn, l.qkv, dims(tokens));
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

  const stages::ModelConfig config_;
  const Index seq_len_;
  std::vector<Layer> layers_;
  Values x_;
  Values normed_;
};

}  // namespace troupe::reference
