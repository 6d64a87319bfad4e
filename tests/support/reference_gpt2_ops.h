#pragma once

#include <numbers>

#include "tests/support/reference_ops.h"

// The ops that GPT-2's layers have and Llama's lack, in double precision and plain loops.

namespace troupe::reference {

/// Mean and 1 / sqrt(variance + eps) of one row.
struct RowMoments {
  double mean, rstd;
};
inline RowMoments row_moments(const double* x, Index channels, double eps) {
  double sum = 0, squares = 0;
  for (Index c = 0; c < channels; ++c) sum += x[c];
  const double mean = sum / static_cast<double>(channels);
  for (Index c = 0; c < channels; ++c) squares += (x[c] - mean) * (x[c] - mean);
  return {mean, 1.0 / std::sqrt(squares / static_cast<double>(channels) + eps)};
}

inline Values layer_norm(const Values& x, const Values& w, const Values& b, double eps) {
  const Index channels = w.size();
  Values y(x.size());
  for (Index row = 0; row < x.size(); row += channels) {
    const auto [mean, rstd] = row_moments(&x[row], channels, eps);
    for (Index c = 0; c < channels; ++c) y[row + c] = (x[row + c] - mean) * rstd * w[c] + b[c];
  }
  return y;
}

struct LayerNormGradient {
  Values dx, dw, db;
};
inline LayerNormGradient layer_norm_backward(const Values& dy, const Values& x, const Values& w,
                                             double eps) {
  const Index channels = w.size();
  LayerNormGradient g{Values(x.size()), Values(channels), Values(channels)};
  for (Index row = 0; row < x.size(); row += channels) {
    const auto [mean, rstd] = row_moments(&x[row], channels, eps);
    double sum = 0, dot = 0;
    for (Index c = 0; c < channels; ++c) {
      sum += dy[row + c] * w[c];
      dot += dy[row + c] * w[c] * (x[row + c] - mean) * rstd;
    }
    for (Index c = 0; c < channels; ++c) {
      const double normed = (x[row + c] - mean) * rstd;
      g.dx[row + c] =
          rstd * (dy[row + c] * w[c] - (sum + normed * dot) / static_cast<double>(channels));
      g.dw[c] += dy[row + c] * normed;
      g.db[c] += dy[row + c];
    }
  }
  return g;
}

inline Values add_bias(Values y, const Values& b) {
  for (Index i = 0; i < y.size(); ++i) y[i] += b[i % b.size()];
  return y;
}

inline Values bias_gradient(const Values& dy, Index channels) {
  Values db(channels);
  for (Index i = 0; i < dy.size(); ++i) db[i % channels] += dy[i];
  return db;
}

/// x[T, C] + positions[S, C] at (first + t) mod S.
inline Values add_positions(Values x, const Values& positions, Index first, Index channels) {
  for (Index i = 0; i < x.size(); ++i) {
    x[i] += positions[(first * channels + i) % positions.size()];
  }
  return x;
}

/// Returns dpositions[S, C].
inline Values positions_backward(const Values& dx, Index first, Index seq_len, Index channels) {
  Values dpositions(seq_len * channels);
  for (Index i = 0; i < dx.size(); ++i) {
    dpositions[(first * channels + i) % dpositions.size()] += dx[i];
  }
  return dpositions;
}

/// The tanh form of GELU.
inline Values gelu(const Values& x) {
  Values y(x.size());
  for (Index i = 0; i < x.size(); ++i) {
    const double u = std::sqrt(2 / std::numbers::pi) * (x[i] + 0.044715 * x[i] * x[i] * x[i]);
    y[i] = x[i] * sigmoid(2 * u);  // as (1 + tanh(u)) / 2, but exact where tanh(u) nears -1
  }
  return y;
}

inline Values gelu_backward(const Values& x, const Values& dy) {
  Values dx(x.size());
  for (Index i = 0; i < x.size(); ++i) {
    const double slope = std::sqrt(2 / std::numbers::pi);
    const double u = slope * (x[i] + 0.044715 * x[i] * x[i] * x[i]);
    const double s = sigmoid(2 * u);
    dx[i] = dy[i] * (s + x[i] * s * (1 - s) * 2 * slope * (1 + 3 * 0.044715 * x[i] * x[i]));
  }
  return dx;
}

}  // namespace troupe::reference
