#pragma once

#include <map>
#include <string>
#include <vector>

#include "stages/model/computation.h"
#include "tests/support/reference_experts.h"

namespace troupe::reference {

inline Values operator+(Values a, const Values& b) {
  for (Index i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// A whole decoder, forward and backward, in double precision.
class Decoder {
 public:
  using Tokens = std::vector<std::int32_t>;

  /// A model for samples of seq_len tokens, with weights and gradients of zero.
  Decoder(const stages::ModelConfig& config, std::int64_t seq_len)
      : config_(config), seq_len_(static_cast<Index>(seq_len)) {
    for (const stages::ParameterInfo& info : parameters_of(config)) {
      weights[info.name] = Values(static_cast<Index>(info.shape.num_elements()));
      gradients[info.name] = weights[info.name];
    }
  }
  virtual ~Decoder() = default;

  std::map<std::string, Values> weights;    ///< by ParameterInfo::name
  std::map<std::string, Values> gradients;  ///< sums so far, by the same names
  /// What dropout multiplies the elements of the next microbatch's tensors with: "embedding", and
  /// of each layer, after its parameters' common prefix, "attention", "feed_forward" and
  /// "probabilities" [H, B, S, S]. A tensor that is not here is not dropped.
  std::map<std::string, Values> factors;
  /// The part of a microbatch in the means over a step that the losses of routers are.
  double share = 1;
  /// experts * sum_e load_e * (mean probability of e) of each layer with experts, of the logits'
  /// last call.
  std::vector<double> balances;
  double router_loss = 0;  ///< of the same, both losses of all layers with their factors

  /// Computes the logits [tokens, vocab].
  virtual Values logits(const Tokens& ids) = 0;

  /// Sum of the tokens' losses.
  double loss(const Tokens& ids, const Tokens& targets) {
    return cross_entropy(logits(ids), targets, vocabulary(), 1).loss;
  }

  /// Sum of the tokens' losses. Adds the gradients of `scale` times this sum.
  double train(const Tokens& ids, const Tokens& targets, double scale) {
    const CrossEntropy head = cross_entropy(logits(ids), targets, vocabulary(), scale);
    backward(ids, head.dlogits);
    return head.loss;
  }

 protected:
  /// Adds the gradients of the logits' last call.
  virtual void backward(const Tokens& ids, const Values& dlogits) = 0;

  Index channels() const { return static_cast<Index>(config_.hidden_size); }
  Index vocabulary() const { return static_cast<Index>(config_.vocab_size); }
  Index width() const { return static_cast<Index>(config_.intermediate_size); }
  /// The elements of x that dropout leaves, scaled; also the gradient of x from that of the result.
  Values dropped(const std::string& tensor, Values x) const {
    const auto found = factors.find(tensor);
    if (found == factors.end()) return x;
    for (Index i = 0; i < x.size(); ++i) x[i] *= found->second.at(i);
    return x;
  }
  AttentionDims dims(const std::string& layer, Index tokens) const {
    const auto found = factors.find(layer + "probabilities");
    return {.batch = tokens / seq_len_,
            .seq_len = seq_len_,
            .heads = static_cast<Index>(config_.num_attention_heads),
            .kv_heads = static_cast<Index>(config_.num_key_value_heads),
            .head_dim = static_cast<Index>(config_.head_dim),
            .rotary = stages::rotary_of(config_),
            .factors = found == factors.end() ? Values{} : found->second};
  }
  void add_gradient(const std::string& name, const Values& dw) {
    gradients.at(name) = gradients.at(name) + dw;
  }
  /// Joins several parameters, one after the other.
  Values joined(const std::vector<std::string>& names) const {
    Values all;
    for (const std::string& name : names) {
      const Values& w = weights.at(name);
      all.insert(all.end(), w.begin(), w.end());
    }
    return all;
  }
  /// Adds the gradient of joined parameters to the gradient of each.
  void add_gradients(const std::vector<std::string>& names, const Values& joined) {
    auto next = joined.begin();
    for (const std::string& name : names) {
      const auto size = static_cast<std::ptrdiff_t>(weights.at(name).size());
      add_gradient(name, Values(next, next + size));
      next += size;
    }
  }

  // Of a layer with experts.
  using Infos = std::vector<stages::ParameterInfo>;
  static std::vector<std::string> names_of(const Infos& infos, int layer, stages::Field field,
                                           int expert) {
    std::vector<std::string> names;
    for (const stages::ParameterInfo& info : infos)
      if (info.module == stages::Module::feed_forward && info.layer == layer &&
          info.field == field && info.expert == expert)
        names.push_back(info.name);
    return names;
  }
  Mixture mixture_of(const Infos& infos, int layer) const {
    using stages::Field;
    const stages::Experts& e = config_.experts;
    const double of_layer = share / static_cast<double>(num_routed_layers(config_));
    Mixture mixture{.channels = channels(),
                    .width = static_cast<Index>(e.width),
                    .experts = static_cast<Index>(e.count),
                    .per_token = static_cast<Index>(e.per_token),
                    .normalizes = e.normalizes,
                    .balance = of_layer * e.aux_loss_coef,
                    .z = of_layer * e.z_loss_coef,
                    .router = joined(names_of(infos, layer, Field::router, -1))};
    for (int i = 0; i < static_cast<int>(e.count); ++i) {
      mixture.in.push_back(joined(names_of(infos, layer, Field::weight, i)));
      mixture.out.push_back(joined(names_of(infos, layer, Field::out_weight, i)));
    }
    return mixture;
  }
  void add_router_loss(const Mixture& mixture, const Mixture::Kept& kept) {
    balances.push_back(mixture.balance_of(kept));
    router_loss += mixture.balance * balances.back() + mixture.z * Mixture::z_of(kept);
  }
  Values mixture_backward(const Infos& infos, int layer, const Mixture::Kept& kept,
                          const Values& dy) {
    using stages::Field;
    const Mixture::Gradient g = mixture_of(infos, layer).backward(dy, kept);
    add_gradients(names_of(infos, layer, Field::router, -1), g.router);
    for (Index i = 0; i < g.in.size(); ++i) {
      const auto expert = static_cast<int>(i);
      add_gradients(names_of(infos, layer, Field::weight, expert), g.in[i]);
      add_gradients(names_of(infos, layer, Field::out_weight, expert), g.out[i]);
    }
    return g.x;
  }

  const stages::ModelConfig config_;
  const Index seq_len_;
};

}  // namespace troupe::reference
