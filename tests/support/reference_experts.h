#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/support/reference_ops.h"

// A feed-forward layer with experts in double precision and plain loops.

namespace troupe::reference {

/// The layer, with the losses of its router.
struct Mixture {
  Index channels = 0, width = 0, experts = 0, per_token = 0;
  bool normalizes = true;
  double balance = 0, z = 0;    ///< factors of both losses
  Values router;                ///< [E, C]
  std::vector<Values> in, out;  ///< by expert: gate and up [2 m, C], down [C, m]

  struct Kept {
    Values x, probs, lse;
    std::vector<std::vector<Index>> chosen;  ///< by token, ascending
  };
  struct Gradient {
    Values x, router;
    std::vector<Values> in, out;
  };

  Values forward(const Values& x, Kept& kept) const {
    choose(x, kept);
    Values y(x.size());
    for (Index t = 0; t < kept.chosen.size(); ++t)
      for (Index k = 0; k < per_token; ++k) {
        const Values of_expert =
            linear(hidden(kept, t, k), out[kept.chosen[t][k]], 1, width, channels);
        for (Index c = 0; c < channels; ++c)
          y[t * channels + c] += weights(kept, t)[k] * of_expert[c];
      }
    return y;
  }

  Gradient backward(const Values& dy, const Kept& kept) const {
    const Index tokens = kept.chosen.size();
    Gradient g{.x = Values(dy.size()), .router = {}, .in = in, .out = out};
    for (auto* all : {&g.in, &g.out})
      for (Values& of_expert : *all) std::ranges::fill(of_expert, 0);
    Values dlogits(tokens * experts);
    for (Index t = 0; t < tokens; ++t) {
      Values dweights(per_token);
      for (Index k = 0; k < per_token; ++k) dweights[k] = expert_backward(dy, kept, t, k, g);
      router_backward(kept, t, dweights, dlogits);
    }
    const LinearGradient of_router =
        linear_backward(dlogits, kept.x, router, tokens, channels, experts);
    g.router = of_router.dw;
    for (Index i = 0; i < g.x.size(); ++i) g.x[i] += of_router.dx[i];
    return g;
  }

  /// experts * sum_e (tokens that chose e / tokens) * (mean probability of e).
  double balance_of(const Kept& kept) const {
    double sum = 0;
    const Values load = load_of(kept);
    const auto tokens = static_cast<double>(kept.chosen.size());
    for (Index i = 0; i < kept.probs.size(); ++i) sum += load[i % experts] * kept.probs[i] / tokens;
    return static_cast<double>(experts) * sum;
  }
  static double z_of(const Kept& kept) {
    double sum = 0;
    for (const double lse : kept.lse) sum += lse * lse;
    return sum / static_cast<double>(kept.lse.size());
  }
  Values load_of(const Kept& kept) const {
    Values load(experts);
    for (const auto& of_token : kept.chosen)
      for (const Index e : of_token) load[e] += 1 / static_cast<double>(kept.chosen.size());
    return load;
  }

 private:
  void choose(const Values& x, Kept& kept) const {
    const Index tokens = x.size() / channels;
    kept = {.x = x, .probs = linear(x, router, tokens, channels, experts), .lse = Values(tokens)};
    for (Index t = 0; t < tokens; ++t) {
      double* const p = &kept.probs[t * experts];
      double sum = 0;
      const double most = *std::max_element(p, p + experts);
      for (Index e = 0; e < experts; ++e) sum += std::exp(p[e] - most);
      kept.lse[t] = most + std::log(sum);
      for (Index e = 0; e < experts; ++e) p[e] = std::exp(p[e] - kept.lse[t]);
      std::vector<Index> order(experts);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](Index a, Index b) { return p[a] > p[b]; });
      order.resize(per_token);
      std::ranges::sort(order);
      kept.chosen.push_back(order);
    }
  }
  double prob(const Kept& kept, Index t, Index k) const {
    return kept.probs[t * experts + kept.chosen[t][k]];
  }
  double sum_of_chosen(const Kept& kept, Index t) const {
    double sum = 0;
    for (Index k = 0; k < per_token; ++k) sum += prob(kept, t, k);
    return normalizes ? sum : 1;
  }
  Values weights(const Kept& kept, Index t) const {
    Values w;
    for (Index k = 0; k < per_token; ++k) w.push_back(prob(kept, t, k) / sum_of_chosen(kept, t));
    return w;
  }
  Values token(const Values& x, Index t) const {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(t * channels);
    return {begin, begin + static_cast<std::ptrdiff_t>(channels)};
  }
  Values inner(const Kept& kept, Index t, Index k) const {
    return linear(token(kept.x, t), in[kept.chosen[t][k]], 1, channels, 2 * width);
  }
  Values hidden(const Kept& kept, Index t, Index k) const {
    return swiglu(inner(kept, t, k), 1, width);
  }
  /// Returns the gradient of the expert's weight.
  double expert_backward(const Values& dy, const Kept& kept, Index t, Index k, Gradient& g) const {
    const Index e = kept.chosen[t][k];
    const Values h = hidden(kept, t, k), y = linear(h, out[e], 1, width, channels);
    Values dout = token(dy, t);
    double dweight = 0;
    for (Index c = 0; c < channels; ++c) dweight += dout[c] * y[c];
    for (double& value : dout) value *= weights(kept, t)[k];
    const LinearGradient last = linear_backward(dout, h, out[e], 1, width, channels);
    const Values dinner = swiglu_backward(inner(kept, t, k), last.dx, 1, width);
    const LinearGradient first =
        linear_backward(dinner, token(kept.x, t), in[e], 1, channels, 2 * width);
    for (Index i = 0; i < last.dw.size(); ++i) g.out[e][i] += last.dw[i];
    for (Index i = 0; i < first.dw.size(); ++i) g.in[e][i] += first.dw[i];
    for (Index c = 0; c < channels; ++c) g.x[t * channels + c] += first.dx[c];
    return dweight;
  }
  void router_backward(const Kept& kept, Index t, const Values& dweights, Values& dlogits) const {
    const auto tokens = static_cast<double>(kept.chosen.size());
    const double sum = sum_of_chosen(kept, t);
    const Values w = weights(kept, t), load = load_of(kept);
    Values dprobs(experts);
    for (Index e = 0; e < experts; ++e)
      dprobs[e] = balance * static_cast<double>(experts) * load[e] / tokens;
    double dot = 0;
    for (Index k = 0; k < per_token; ++k) dot += dweights[k] * w[k];
    for (Index k = 0; k < per_token; ++k)
      dprobs[kept.chosen[t][k]] += (dweights[k] - (normalizes ? dot : 0)) / sum;
    const double* const p = &kept.probs[t * experts];
    double mean = 0;
    for (Index e = 0; e < experts; ++e) mean += dprobs[e] * p[e];
    for (Index e = 0; e < experts; ++e)
      dlogits[t * experts + e] = p[e] * (dprobs[e] - mean + 2 * z * kept.lse[t] / tokens);
  }
};

}  // namespace troupe::reference
