#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "tensor/device/ops.h"
#include "tensor/device/rotary.h"

// Every op of a Llama layer with its gradient, in double precision and plain loops, as the kernels'
// reference. Matrices are row-major vectors; T tokens, C channels, F feed-forward width, V
// vocabulary.

namespace troupe::reference {

using Values = std::vector<double>;
using Index = std::size_t;

/// y[T, out] = x[T, in] * w[out, in]^T.
inline Values linear(const Values& x, const Values& w, Index rows, Index in, Index out) {
  Values y(rows * out);
  for (Index t = 0; t < rows; ++t) {
    for (Index o = 0; o < out; ++o) {
      for (Index i = 0; i < in; ++i) y[t * out + o] += x[t * in + i] * w[o * in + i];
    }
  }
  return y;
}

struct LinearGradient {
  Values dx, dw;
};
inline LinearGradient linear_backward(const Values& dy, const Values& x, const Values& w,
                                      Index rows, Index in, Index out) {
  LinearGradient g{Values(rows * in), Values(out * in)};
  for (Index t = 0; t < rows; ++t) {
    for (Index o = 0; o < out; ++o) {
      for (Index i = 0; i < in; ++i) {
        g.dx[t * in + i] += dy[t * out + o] * w[o * in + i];
        g.dw[o * in + i] += dy[t * out + o] * x[t * in + i];
      }
    }
  }
  return g;
}

/// 1 / sqrt(mean(x^2) + eps) of one row.
inline double reciprocal_rms(const double* x, Index channels, double eps) {
  double squares = 0;
  for (Index c = 0; c < channels; ++c) squares += x[c] * x[c];
  return 1.0 / std::sqrt(squares / static_cast<double>(channels) + eps);
}

/// The weights are plus + w.
inline Values rms_norm(const Values& x, const Values& w, double eps, double plus = 0) {
  const Index channels = w.size();
  Values y(x.size());
  for (Index row = 0; row < x.size(); row += channels) {
    const double rstd = reciprocal_rms(&x[row], channels, eps);
    for (Index c = 0; c < channels; ++c) y[row + c] = x[row + c] * rstd * (plus + w[c]);
  }
  return y;
}

struct NormGradient {
  Values dx, dw;
};
inline NormGradient rms_norm_backward(const Values& dy, const Values& x, const Values& w,
                                      double eps, double plus = 0) {
  const Index channels = w.size();
  NormGradient g{Values(x.size()), Values(channels)};
  for (Index row = 0; row < x.size(); row += channels) {
    const double rstd = reciprocal_rms(&x[row], channels, eps);
    double dot = 0;
    for (Index c = 0; c < channels; ++c) dot += dy[row + c] * (plus + w[c]) * x[row + c];
    const double pull = dot * rstd * rstd * rstd / static_cast<double>(channels);
    for (Index c = 0; c < channels; ++c) {
      g.dx[row + c] = rstd * dy[row + c] * (plus + w[c]) - pull * x[row + c];
      g.dw[c] += dy[row + c] * x[row + c] * rstd;
    }
  }
  return g;
}

inline double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

/// y[T, F] = silu(g) * u, where gate_up[T, 2F] holds g and then u.
inline Values swiglu(const Values& gate_up, Index rows, Index width) {
  Values y(rows * width);
  for (Index t = 0; t < rows; ++t) {
    const double* gate = &gate_up[t * 2 * width];
    for (Index f = 0; f < width; ++f) {
      y[t * width + f] = gate[f] * sigmoid(gate[f]) * gate[width + f];
    }
  }
  return y;
}

inline Values swiglu_backward(const Values& gate_up, const Values& dy, Index rows, Index width) {
  Values d(gate_up.size());
  for (Index t = 0; t < rows; ++t) {
    const double* gate = &gate_up[t * 2 * width];
    double* dgate = &d[t * 2 * width];
    for (Index f = 0; f < width; ++f) {
      const double s = sigmoid(gate[f]), dout = dy[t * width + f];
      dgate[f] = dout * gate[width + f] * (s + gate[f] * s * (1 - s));
      dgate[width + f] = dout * gate[f] * s;
    }
  }
  return d;
}

inline Values embedding(const std::vector<std::int32_t>& ids, const Values& table, Index channels) {
  Values x;
  for (const std::int32_t id : ids) {
    const double* row = &table[static_cast<Index>(id) * channels];
    x.insert(x.end(), row, row + channels);
  }
  return x;
}

/// Returns dtable[V, C].
inline Values embedding_backward(const std::vector<std::int32_t>& ids, const Values& dx,
                                 Index vocabulary, Index channels) {
  Values dtable(vocabulary * channels);
  for (Index t = 0; t < ids.size(); ++t) {
    for (Index c = 0; c < channels; ++c) {
      dtable[static_cast<Index>(ids[t]) * channels + c] += dx[t * channels + c];
    }
  }
  return dtable;
}

struct CrossEntropy {
  double loss = 0;  // summed over the tokens; those without a target have none, and no gradient
  Values dlogits;   // (softmax - onehot) * scale
};
inline CrossEntropy cross_entropy(const Values& logits, const std::vector<std::int32_t>& targets,
                                  Index vocabulary, double scale) {
  CrossEntropy result{0, Values(logits.size())};
  for (Index t = 0; t < targets.size(); ++t) {
    if (targets[t] == tensor::kNoTarget) continue;
    const double* row = &logits[t * vocabulary];
    const double max = *std::max_element(row, row + vocabulary);
    double sum = 0;
    for (Index v = 0; v < vocabulary; ++v) sum += std::exp(row[v] - max);
    const auto target = static_cast<Index>(targets[t]);
    result.loss += max + std::log(sum) - row[target];
    for (Index v = 0; v < vocabulary; ++v) {
      result.dlogits[t * vocabulary + v] =
          (std::exp(row[v] - max) / sum - (v == target ? 1.0 : 0.0)) * scale;
    }
  }
  return result;
}

struct AttentionDims {
  Index batch = 1, seq_len = 1, heads = 1, kv_heads = 1, head_dim = 2;
  std::optional<tensor::Rotary> rotary = tensor::Rotary{};
  bool causal = true;
  Values mask = {};     // [B, S, S], added to the scaled scores; none if empty
  Values factors = {};  // [H, B, S, S], of the probabilities; 1 if empty
  Index window = 0;     // keys that a query sees, itself among them; 0: all
  double scale = 0;     // of the scores; 0: 1 / sqrt(head_dim)
  double cap = 0;       // c of c * tanh(score / c); 0: none

  Index group() const { return heads / kv_heads; }
  Index row() const { return (heads + 2 * kv_heads) * head_dim; }  // columns of qkv
  Index query(Index b, Index s, Index h) const { return (b * seq_len + s) * row() + h * head_dim; }
  Index key(Index b, Index s, Index k) const { return query(b, s, heads + k); }
  Index value(Index b, Index s, Index k) const { return query(b, s, heads + kv_heads + k); }
  /// What the mask adds to the score of query s and key j.
  double added(Index b, Index s, Index j) const {
    if (causal && j > s) return -std::numeric_limits<double>::infinity();
    if (window > 0 && s >= j + window) return -std::numeric_limits<double>::infinity();
    return mask.empty() ? 0 : mask[(b * seq_len + s) * seq_len + j];
  }
  double score_scale() const {
    return scale == 0 ? 1 / std::sqrt(static_cast<double>(head_dim)) : scale;
  }
  /// The score of a product, and its slope.
  double score(double product) const {
    const double scaled = product * score_scale();
    return cap == 0 ? scaled : cap * std::tanh(scaled / cap);
  }
  double slope(double product) const {
    const double ratio = cap == 0 ? 0 : std::tanh(product * score_scale() / cap);
    return score_scale() * (1 - ratio * ratio);
  }
  double factor(Index b, Index h, Index s, Index j) const {
    return factors.empty() ? 1 : factors[((h * batch + b) * seq_len + s) * seq_len + j];
  }
  Index out(Index b, Index s, Index h) const { return ((b * seq_len + s) * heads + h) * head_dim; }
};

/// Rotates (sign 1) or rotates back (sign -1) every query and key head of qkv, or a part of it, if
/// dims say so. The
/// angles are float32 numbers by definition: position * frequency, each rounded.
inline void rotate(Values& qkv, const AttentionDims& dims, double sign) {
  if (!dims.rotary) return;
  const auto half = static_cast<Index>(
      tensor::rotary_dim(*dims.rotary, static_cast<std::int64_t>(dims.head_dim)) / 2);
  std::vector<float> frequencies(half);
  tensor::inverse_frequencies(*dims.rotary, static_cast<std::int64_t>(dims.seq_len), frequencies);
  const double scaling = tensor::attention_scaling(*dims.rotary);
  for (Index row = 0; row < dims.batch * dims.seq_len; ++row) {
    for (Index head = 0; head < dims.heads + dims.kv_heads; ++head) {
      double* x = &qkv[row * dims.row() + head * dims.head_dim];
      for (Index i = 0; i < half; ++i) {
        const double angle = static_cast<float>(row % dims.seq_len) * frequencies[i];
        const double c = scaling * std::cos(angle), s = scaling * sign * std::sin(angle);
        const double a = x[i], b = x[i + half];
        x[i] = a * c - b * s;
        x[i + half] = b * c + a * s;
      }
    }
  }
}

inline double product(const double* a, const double* b, Index count) {
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// Probabilities of one query over all positions; `lse` receives the log of their normalizer. All
/// are zero, and lse is -inf, if the query sees no key.
inline Values attention_row(const Values& rotated, const AttentionDims& dims, Index b, Index h,
                            Index s, double& lse) {
  Values p(dims.seq_len);
  const double* q = &rotated[dims.query(b, s, h)];
  for (Index j = 0; j < dims.seq_len; ++j) {
    p[j] = dims.added(b, s, j);
    if (std::isinf(p[j])) continue;
    const double* k = &rotated[dims.key(b, j, h / dims.group())];
    p[j] += dims.score(product(q, k, dims.head_dim));
  }
  const double max = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (const double score : p) sum += std::isinf(score) ? 0 : std::exp(score - max);
  lse = sum == 0 ? max : max + std::log(sum);
  for (double& score : p) score = std::isinf(score) ? 0 : std::exp(score - lse);
  return p;
}

struct AttentionResult {
  Values out;  // [B*S, H*D]
  Values lse;  // [B*H*S]
};
/// Grouped-query attention of qkv[B*S, (H + 2K)*D], with rotary embedding and masks as dims say.
inline AttentionResult attention(Values qkv, const AttentionDims& dims) {
  rotate(qkv, dims, 1);
  AttentionResult result{Values(dims.batch * dims.seq_len * dims.heads * dims.head_dim),
                         Values(dims.batch * dims.heads * dims.seq_len)};
  for (Index b = 0; b < dims.batch; ++b) {
    for (Index h = 0; h < dims.heads; ++h) {
      for (Index s = 0; s < dims.seq_len; ++s) {
        double& lse = result.lse[(b * dims.heads + h) * dims.seq_len + s];
        const Values p = attention_row(qkv, dims, b, h, s, lse);
        double* out = &result.out[dims.out(b, s, h)];
        for (Index j = 0; j < dims.seq_len; ++j) {
          if (p[j] == 0) continue;
          const double* v = &qkv[dims.value(b, j, h / dims.group())];
          const double factor = dims.factor(b, h, s, j);
          for (Index d = 0; d < dims.head_dim; ++d) out[d] += p[j] * factor * v[d];
        }
      }
    }
  }
  return result;
}

/// Returns dqkv for dout[B*S, H*D].
inline Values attention_backward(const Values& dout, Values qkv, const AttentionDims& dims) {
  rotate(qkv, dims, 1);
  Values dqkv(qkv.size());
  for (Index b = 0; b < dims.batch; ++b) {
    for (Index h = 0; h < dims.heads; ++h) {
      const Index kv = h / dims.group();
      for (Index s = 0; s < dims.seq_len; ++s) {
        double lse = 0, delta = 0;
        const Values p = attention_row(qkv, dims, b, h, s, lse);
        const double* dy = &dout[dims.out(b, s, h)];
        Values dp(dims.seq_len);
        for (Index j = 0; j < dims.seq_len; ++j) {
          if (p[j] == 0) continue;
          const double factor = dims.factor(b, h, s, j);
          const double* v = &qkv[dims.value(b, j, kv)];
          double* dv = &dqkv[dims.value(b, j, kv)];
          for (Index d = 0; d < dims.head_dim; ++d) {
            dp[j] += factor * dy[d] * v[d];
            dv[d] += p[j] * factor * dy[d];
          }
          delta += p[j] * dp[j];
        }
        for (Index j = 0; j < dims.seq_len; ++j) {
          if (p[j] == 0) continue;
          const Index query = dims.query(b, s, h), key = dims.key(b, j, kv);
          const double *q = &qkv[query], *k = &qkv[key];
          const double dscore = p[j] * (dp[j] - delta) * dims.slope(product(q, k, dims.head_dim));
          double *dq = &dqkv[query], *dk = &dqkv[key];
          for (Index d = 0; d < dims.head_dim; ++d) {
            dq[d] += dscore * k[d];
            dk[d] += dscore * q[d];
          }
        }
      }
    }
  }
  rotate(dqkv, dims, -1);
  return dqkv;
}

}  // namespace troupe::reference
