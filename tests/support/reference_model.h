#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "stages/model_config.h"

// A whole Llama decoder, forward and backward, in double precision and plain loops: what the stages
// are compared with. Nothing is clever here; every S x S matrix is held.

namespace troupe::test {

/// Row-major matrix of doubles.
struct Matrix {
  Matrix() = default;
  Matrix(std::int64_t num_rows, std::int64_t num_cols)
      : rows(num_rows), cols(num_cols), v(static_cast<std::size_t>(num_rows * num_cols)) {}
  double& operator()(std::int64_t r, std::int64_t c) {
    return v[static_cast<std::size_t>(r * cols + c)];
  }
  double operator()(std::int64_t r, std::int64_t c) const {
    return v[static_cast<std::size_t>(r * cols + c)];
  }
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> v;
};

inline Matrix add(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.v.size(); ++i) a.v[i] += b.v[i];
  return a;
}

/// x w^T.
inline Matrix linear(const Matrix& x, const Matrix& w) {
  Matrix y(x.rows, w.rows);
  for (std::int64_t t = 0; t < x.rows; ++t)
    for (std::int64_t o = 0; o < w.rows; ++o)
      for (std::int64_t i = 0; i < x.cols; ++i) y(t, o) += x(t, i) * w(o, i);
  return y;
}

/// Returns dx; adds to dw.
inline Matrix linear_backward(const Matrix& dy, const Matrix& x, const Matrix& w, Matrix& dw) {
  Matrix dx(x.rows, x.cols);
  for (std::int64_t t = 0; t < x.rows; ++t)
    for (std::int64_t o = 0; o < w.rows; ++o)
      for (std::int64_t i = 0; i < x.cols; ++i) {
        dx(t, i) += dy(t, o) * w(o, i);
        dw(o, i) += dy(t, o) * x(t, i);
      }
  return dx;
}

inline double reciprocal_rms(const Matrix& x, std::int64_t t, double eps) {
  double squares = 0;
  for (std::int64_t c = 0; c < x.cols; ++c) squares += x(t, c) * x(t, c);
  return 1 / std::sqrt(squares / static_cast<double>(x.cols) + eps);
}

/// w: [1, C].
inline Matrix rms_norm(const Matrix& x, const Matrix& w, double eps) {
  Matrix y(x.rows, x.cols);
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const double r = reciprocal_rms(x, t, eps);
    for (std::int64_t c = 0; c < x.cols; ++c) y(t, c) = x(t, c) * r * w(0, c);
  }
  return y;
}

inline Matrix rms_norm_backward(const Matrix& dy, const Matrix& x, const Matrix& w, double eps,
                                Matrix& dw) {
  Matrix dx(x.rows, x.cols);
  for (std::int64_t t = 0; t < x.rows; ++t) {
    const double r = reciprocal_rms(x, t, eps);
    double dot = 0;
    for (std::int64_t c = 0; c < x.cols; ++c) dot += dy(t, c) * w(0, c) * x(t, c);
    for (std::int64_t c = 0; c < x.cols; ++c) {
      dx(t, c) = r * dy(t, c) * w(0, c) - r * r * r * x(t, c) * dot / static_cast<double>(x.cols);
      dw(0, c) += dy(t, c) * x(t, c) * r;
    }
  }
  return dx;
}

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// The model with its weights and the gradients so far, by Hugging Face name. Norms are [1, C].
class ReferenceModel {
 public:
  ReferenceModel(const stages::ModelConfig& config, std::int64_t seq_len)
      : config_(config), seq_len_(seq_len) {
    for (const stages::ParameterInfo& info : parameters_of(config)) {
      const bool vector = info.shape.rank() == 1;
      const Matrix zero(vector ? 1 : info.shape[0], vector ? info.shape[0] : info.shape[1]);
      weights[info.name] = zero;
      gradients[info.name] = zero;
    }
  }

  std::map<std::string, Matrix> weights;
  std::map<std::string, Matrix> gradients;

  /// [tokens, vocab]. ids hold whole samples of seq_len.
  Matrix logits(std::span<const std::int32_t> ids) {
    x_ = embed(ids);
    blocks_.assign(static_cast<std::size_t>(config_.num_hidden_layers), {});
    for (std::size_t i = 0; i < blocks_.size(); ++i) x_ = block_forward(prefix(i), blocks_[i], x_);
    normed_ = rms_norm(x_, weights["model.norm.weight"], config_.rms_norm_eps);
    return linear(normed_, weights[head_name()]);
  }

  /// Sum of the tokens' losses.
  double loss(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets) {
    Matrix scores = logits(ids);
    return cross_entropy(scores, targets, 1);
  }

  /// The same; adds the gradients of scale times it.
  double train(std::span<const std::int32_t> ids, std::span<const std::int32_t> targets,
               double scale) {
    Matrix scores = logits(ids);
    const double sum = cross_entropy(scores, targets, scale);
    backward(ids, scores);
    return sum;
  }

 private:
  struct Block {
    Matrix x, n1, q, k, v, a, mid, n2, g, u, act;
    std::vector<Matrix> p;  // probabilities [S, S], by sample and query head
  };

  /// Returns the sum of losses and turns the logits into scale times its gradient.
  static double cross_entropy(Matrix& logits, std::span<const std::int32_t> targets, double scale) {
    double loss = 0;
    for (std::int64_t t = 0; t < logits.rows; ++t) {
      const std::int64_t target = targets[static_cast<std::size_t>(t)];
      double largest = logits(t, 0);
      for (std::int64_t v = 1; v < logits.cols; ++v) largest = std::max(largest, logits(t, v));
      double sum = 0;
      for (std::int64_t v = 0; v < logits.cols; ++v) sum += std::exp(logits(t, v) - largest);
      loss += std::log(sum) + largest - logits(t, target);
      for (std::int64_t v = 0; v < logits.cols; ++v) {
        const double p = std::exp(logits(t, v) - largest) / sum;
        logits(t, v) = (p - (v == target ? 1 : 0)) * scale;
      }
    }
    return loss;
  }

  static std::string prefix(std::size_t layer) {
    return "model.layers." + std::to_string(layer) + ".";
  }
  std::string head_name() const {
    return config_.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  }

  Matrix embed(std::span<const std::int32_t> ids) {
    const Matrix& table = weights["model.embed_tokens.weight"];
    Matrix x(static_cast<std::int64_t>(ids.size()), config_.hidden_size);
    for (std::int64_t t = 0; t < x.rows; ++t)
      for (std::int64_t c = 0; c < x.cols; ++c)
        x(t, c) = table(ids[static_cast<std::size_t>(t)], c);
    return x;
  }

  /// Turns each head's pairs (d, d + D/2) by sign * position * theta^(-2d/D).
  void rotate(Matrix& heads, double sign) const {
    const std::int64_t D = config_.head_dim;
    for (std::int64_t t = 0; t < heads.rows; ++t)
      for (std::int64_t h = 0; h < heads.cols / D; ++h)
        for (std::int64_t d = 0; d < D / 2; ++d) {
          const double frequency =
              std::pow(config_.rope_theta, -2.0 * static_cast<double>(d) / static_cast<double>(D));
          const double angle = sign * static_cast<double>(t % seq_len_) * frequency;
          double& low = heads(t, h * D + d);
          double& high = heads(t, h * D + d + D / 2);
          const double turned = low * std::cos(angle) - high * std::sin(angle);
          high = high * std::cos(angle) + low * std::sin(angle);
          low = turned;
        }
  }

  void attention(Block& b) {
    const std::int64_t D = config_.head_dim;
    const std::int64_t group = config_.num_attention_heads / config_.num_key_value_heads;
    b.a = Matrix(b.q.rows, b.q.cols);
    for (std::int64_t first = 0; first < b.q.rows; first += seq_len_)
      for (std::int64_t h = 0; h < config_.num_attention_heads; ++h) {
        const std::int64_t kv = h / group;
        Matrix& p = b.p.emplace_back(seq_len_, seq_len_);
        for (std::int64_t i = 0; i < seq_len_; ++i) {
          double sum = 0;
          for (std::int64_t j = 0; j <= i; ++j) {
            double score = 0;
            for (std::int64_t d = 0; d < D; ++d)
              score += b.q(first + i, h * D + d) * b.k(first + j, kv * D + d);
            sum += p(i, j) = std::exp(score / std::sqrt(static_cast<double>(D)));
          }
          for (std::int64_t j = 0; j <= i; ++j) p(i, j) /= sum;
          for (std::int64_t j = 0; j <= i; ++j)
            for (std::int64_t d = 0; d < D; ++d)
              b.a(first + i, h * D + d) += p(i, j) * b.v(first + j, kv * D + d);
        }
      }
  }

  /// From da to dq, dk, dv (zero on entry), still rotated.
  void attention_backward(const Block& b, const Matrix& da, Matrix& dq, Matrix& dk, Matrix& dv) {
    const std::int64_t D = config_.head_dim;
    const std::int64_t group = config_.num_attention_heads / config_.num_key_value_heads;
    const double scale = 1 / std::sqrt(static_cast<double>(D));
    std::size_t head = 0;
    for (std::int64_t first = 0; first < b.q.rows; first += seq_len_)
      for (std::int64_t h = 0; h < config_.num_attention_heads; ++h) {
        const std::int64_t kv = h / group;
        const Matrix& p = b.p[head++];
        for (std::int64_t i = 0; i < seq_len_; ++i) {
          std::vector<double> dp(static_cast<std::size_t>(i + 1));
          double dot = 0;
          for (std::int64_t j = 0; j <= i; ++j) {
            for (std::int64_t d = 0; d < D; ++d) {
              const double g = da(first + i, h * D + d);
              dp[static_cast<std::size_t>(j)] += g * b.v(first + j, kv * D + d);
              dv(first + j, kv * D + d) += p(i, j) * g;
            }
            dot += p(i, j) * dp[static_cast<std::size_t>(j)];
          }
          for (std::int64_t j = 0; j <= i; ++j) {
            const double ds = p(i, j) * (dp[static_cast<std::size_t>(j)] - dot) * scale;
            for (std::int64_t d = 0; d < D; ++d) {
              dq(first + i, h * D + d) += ds * b.k(first + j, kv * D + d);
              dk(first + j, kv * D + d) += ds * b.q(first + i, h * D + d);
            }
          }
        }
      }
  }

  Matrix block_forward(const std::string& name, Block& b, const Matrix& x) {
    const auto w = [&](const char* part) -> const Matrix& {
      return weights.at(name + part + ".weight");
    };
    b.x = x;
    b.n1 = rms_norm(x, w("input_layernorm"), config_.rms_norm_eps);
    b.q = linear(b.n1, w("self_attn.q_proj"));
    b.k = linear(b.n1, w("self_attn.k_proj"));
    b.v = linear(b.n1, w("self_attn.v_proj"));
    rotate(b.q, 1);
    rotate(b.k, 1);
    attention(b);
    b.mid = add(linear(b.a, w("self_attn.o_proj")), x);
    b.n2 = rms_norm(b.mid, w("post_attention_layernorm"), config_.rms_norm_eps);
    b.g = linear(b.n2, w("mlp.gate_proj"));
    b.u = linear(b.n2, w("mlp.up_proj"));
    b.act = b.g;
    for (std::size_t i = 0; i < b.g.v.size(); ++i) b.act.v[i] *= sigmoid(b.g.v[i]) * b.u.v[i];
    return add(linear(b.act, w("mlp.down_proj")), b.mid);
  }

  Matrix block_backward(const std::string& name, const Block& b, const Matrix& dy) {
    const auto w = [&](const char* part) -> const Matrix& {
      return weights.at(name + part + ".weight");
    };
    const auto dw = [&](const char* part) -> Matrix& {
      return gradients.at(name + part + ".weight");
    };
    const double eps = config_.rms_norm_eps;
    const auto back = [&](const Matrix& d, const Matrix& in, const char* part) {
      return linear_backward(d, in, w(part), dw(part));
    };
    const Matrix dact = back(dy, b.act, "mlp.down_proj");
    Matrix dg = dact;
    Matrix du = dact;
    for (std::size_t i = 0; i < dact.v.size(); ++i) {
      const double g = b.g.v[i];
      const double s = sigmoid(g);
      dg.v[i] = dact.v[i] * b.u.v[i] * (s + g * s * (1 - s));
      du.v[i] = dact.v[i] * g * s;
    }
    const Matrix dn2 = add(back(dg, b.n2, "mlp.gate_proj"), back(du, b.n2, "mlp.up_proj"));
    const Matrix dmid = add(rms_norm_backward(dn2, b.mid, w("post_attention_layernorm"), eps,
                                              dw("post_attention_layernorm")),
                            dy);
    const Matrix da = back(dmid, b.a, "self_attn.o_proj");
    Matrix dq(b.q.rows, b.q.cols), dk(b.k.rows, b.k.cols), dv(b.v.rows, b.v.cols);
    attention_backward(b, da, dq, dk, dv);
    rotate(dq, -1);
    rotate(dk, -1);
    const Matrix dn1 =
        add(add(back(dq, b.n1, "self_attn.q_proj"), back(dk, b.n1, "self_attn.k_proj")),
            back(dv, b.n1, "self_attn.v_proj"));
    return add(rms_norm_backward(dn1, b.x, w("input_layernorm"), eps, dw("input_layernorm")), dmid);
  }

  void backward(std::span<const std::int32_t> ids, const Matrix& dlogits) {
    const Matrix dn =
        linear_backward(dlogits, normed_, weights[head_name()], gradients[head_name()]);
    Matrix dx = rms_norm_backward(dn, x_, weights["model.norm.weight"], config_.rms_norm_eps,
                                  gradients["model.norm.weight"]);
    for (std::size_t i = blocks_.size(); i-- > 0;) dx = block_backward(prefix(i), blocks_[i], dx);
    Matrix& dtable = gradients["model.embed_tokens.weight"];
    for (std::int64_t t = 0; t < dx.rows; ++t)
      for (std::int64_t c = 0; c < dx.cols; ++c)
        dtable(ids[static_cast<std::size_t>(t)], c) += dx(t, c);
  }

  const stages::ModelConfig config_;
  const std::int64_t seq_len_;
  std::vector<Block> blocks_;
  Matrix x_;
  Matrix normed_;
};

}  // namespace troupe::test
