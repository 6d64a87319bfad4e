#pragma once

#include "tests/support/reference_gpt2_ops.h"

// The ops that layers of later families have and Llama's and GPT-2's lack, in double precision and
// plain loops.

namespace troupe::reference {

/// Columns of a matrix that are heads of `dim` columns each.
struct Heads {
  Index row = 1;  ///< columns of the matrix
  Index first = 0, heads = 1, dim = 1;
};

/// The heads of a matrix, one after the other: [T * heads, dim].
inline Values heads_of(const Values& x, const Heads& of) {
  Values heads;
  for (Index row = 0; row < x.size(); row += of.row) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row + of.first);
    heads.insert(heads.end(), begin, begin + static_cast<std::ptrdiff_t>(of.heads * of.dim));
  }
  return heads;
}
inline void put_heads(const Values& heads, const Heads& of, Values& x) {
  auto next = heads.begin();
  for (Index row = 0; row < x.size(); row += of.row)
    for (Index i = 0; i < of.heads * of.dim; ++i) x[row + of.first + i] = *next++;
}

/// y[T, F] = gelu(g) * u, where gate_up[T, 2F] holds g and then u.
inline Values geglu(const Values& gate_up, Index rows, Index width) {
  const Heads gate{2 * width, 0, 1, width}, up{2 * width, width, 1, width};
  Values y = gelu(heads_of(gate_up, gate));
  const Values u = heads_of(gate_up, up);
  for (Index i = 0; i < rows * width; ++i) y[i] *= u[i];
  return y;
}

inline Values geglu_backward(const Values& gate_up, const Values& dy, Index rows, Index width) {
  const Heads gate{2 * width, 0, 1, width}, up{2 * width, width, 1, width};
  const Values g = heads_of(gate_up, gate), u = heads_of(gate_up, up), y = gelu(g);
  Values dgelu(rows * width), du(rows * width), d(gate_up.size());
  for (Index i = 0; i < rows * width; ++i) {
    dgelu[i] = dy[i] * u[i];
    du[i] = dy[i] * y[i];
  }
  put_heads(gelu_backward(g, dgelu), gate, d);
  put_heads(du, up, d);
  return d;
}

inline Values scaled(Values x, double factor) {
  for (double& value : x) value *= factor;
  return x;
}

/// cap * tanh(x / cap); x itself if cap is 0.
inline Values soft_cap(Values x, double cap) {
  if (cap == 0) return x;
  for (double& value : x) value = cap * std::tanh(value / cap);
  return x;
}
/// From the capped values.
inline Values soft_cap_backward(const Values& y, Values dy, double cap) {
  for (Index i = 0; i < y.size() && cap != 0; ++i) dy[i] *= 1 - (y[i] / cap) * (y[i] / cap);
  return dy;
}

}  // namespace troupe::reference
