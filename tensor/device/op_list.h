#pragma once

#include <cstdint>
#include <span>

#include "tensor/device/adamw.h"
#include "tensor/device/device.h"
#include "tensor/device/linear.h"
#include "tensor/values/random.h"

// The list of the ops, and what some are given. What each computes is told in tensor/device/ops.h.

namespace troupe::tensor {

/// The target of a token that has no loss and gives no gradient.
inline constexpr std::int32_t kNoTarget = -100;

/// The columns of a shard's logits when the classes of a vocabulary are divided among shards.
struct VocabColumns {
  std::int64_t first = 0;  ///< the class of column 0
  std::int64_t valid = 0;  ///< columns that stand for classes; the later ones are padding
};

/// A cross-entropy over all classes, with label smoothing as torch defines it (arXiv 1512.00567):
/// (1 - s) (-log p[target]) + s (-mean of log p).
struct VocabLoss {
  std::int64_t classes = 0;          ///< of all shards, without padding
  float smoothing = 0;               ///< s
  std::int32_t ignored = kNoTarget;  ///< a target whose token has no loss and no gradient
  float scale = 1;                   ///< factor of the gradient
};

/// Columns of a matrix that are `heads` groups of `dim`, from column `first` on.
struct HeadColumns {
  std::int64_t first = 0;
  std::int64_t heads = 1;
  std::int64_t dim = 0;

  std::int64_t count() const { return heads * dim; }
};

/// A router of tokens to experts.
struct RouterShape {
  std::int64_t experts = 0;  ///< E
  std::int64_t chosen = 0;   ///< K, of each token
  bool normalizes = true;    ///< whether the weights of a token's experts are divided by their sum
};

/// What the losses of a router add to its gradient, of the tokens that count.
struct RouterLosses {
  Tensor balance{};  ///< [E] float32, the gradient of each token's probabilities; empty: none
  Tensor lse{};      ///< [T] float32, as route() gave it; read if z is not 0
  float z = 0;       ///< the gradient of a token's lse is z * lse
  Tensor counted{};  ///< [T] int32, 0 for padding; empty: all tokens count
};

/// The ops that a back end implements: OP(name, parameters after the stream...).
#define TROUPE_OPS(OP)                                                                             \
  OP(fill_zero, const Tensor& x)                                                                   \
  OP(copy, const Tensor& src, const Tensor& dst)                                                   \
  OP(accumulate, const Tensor& x, const Tensor& y)                                                 \
  OP(copy_columns, const Tensor& src, std::int64_t from, const Tensor& dst, std::int64_t to,       \
     std::int64_t count)                                                                           \
  OP(scale, const Tensor& x, float factor, const Tensor& y)                                        \
  OP(add_scaled, const Tensor& x, float factor, const Tensor& residual, const Tensor& y)           \
  OP(cap_logits, const Tensor& x, float scale, float cap, const Tensor& y)                         \
  OP(cap_logits_backward, const Tensor& y, const Tensor& dy, float scale, float cap,               \
     const Tensor& dx)                                                                             \
  OP(rms_norm, const Tensor& x, const Tensor& w, float eps, float plus, const Tensor& y,           \
     const Tensor& rstd)                                                                           \
  OP(rms_norm_backward, const Tensor& dy, const Tensor& x, const Tensor& w, float plus,            \
     const Tensor& rstd, const Tensor& residual, const Tensor& dx, const Tensor& dw)               \
  OP(layer_norm, const Tensor& x, const Tensor& w, const Tensor& b, float eps, const Tensor& y,    \
     const Tensor& mean, const Tensor& rstd)                                                       \
  OP(layer_norm_backward, const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& mean,  \
     const Tensor& rstd, const Tensor& residual, const Tensor& dx, const Tensor& dw,               \
     const Tensor& db)                                                                             \
  OP(head_norm, const Tensor& x, const HeadColumns& heads, const Tensor& w, float eps, float plus, \
     const Tensor& y, const Tensor& squares, std::int64_t width)                                   \
  OP(head_norm_backward, const Tensor& dy, const Tensor& x, const HeadColumns& heads,              \
     const Tensor& w, float eps, float plus, const Tensor& dx, const Tensor& dw,                   \
     const Tensor& squares, const Tensor& dots, std::int64_t width)                                \
  OP(head_squares, const Tensor& x, const HeadColumns& columns, const Tensor& squares)             \
  OP(head_dots, const Tensor& dy, const Tensor& x, const HeadColumns& columns, const Tensor& w,    \
     float plus, const Tensor& dots)                                                               \
  OP(swiglu, const Tensor& gate_up, const Tensor& y)                                               \
  OP(swiglu_backward, const Tensor& gate_up, const Tensor& dy, const Tensor& dgate_up)             \
  OP(geglu, const Tensor& gate_up, const Tensor& y)                                                \
  OP(geglu_backward, const Tensor& gate_up, const Tensor& dy, const Tensor& dgate_up)              \
  OP(gelu, const Tensor& x, const Tensor& y)                                                       \
  OP(gelu_backward, const Tensor& x, const Tensor& dy, const Tensor& dx)                           \
  OP(route, const Tensor& logits, const RouterShape& router, const Tensor& probs,                  \
     const Tensor& chosen, const Tensor& weights, const Tensor& lse)                               \
  OP(route_backward, const Tensor& probs, const Tensor& chosen, const Tensor& weights,             \
     const Tensor& dweights, const RouterShape& router, const RouterLosses& losses,                \
     const Tensor& dlogits)                                                                        \
  OP(router_load, const Tensor& probs, const Tensor& chosen, const Tensor& lse,                    \
     const Tensor& counted, const Tensor& load)                                                    \
  OP(sort_rows, const Tensor& chosen, const Tensor& weights, const Tensor& offsets,                \
     const Tensor& row_of, const Tensor& token_of, const Tensor& row_weights)                      \
  OP(gather_rows, const Tensor& x, const Tensor& rows, const Tensor& y)                            \
  OP(sum_rows, const Tensor& x, const Tensor& row_of, const Tensor& y, const Tensor& residual)     \
  OP(weighted_swiglu, const Tensor& gate_up, const Tensor& weights, const Tensor& y)               \
  OP(weighted_swiglu_backward, const Tensor& gate_up, const Tensor& weights, const Tensor& dy,     \
     const Tensor& dgate_up, const Tensor& dweights)                                               \
  OP(add_bias, const Tensor& b, const Tensor& y, const Tensor& residual)                           \
  OP(bias_gradient, const Tensor& dy, const Tensor& db, Gradient gradient)                         \
  OP(dropout, const Dropout& dropout, const MatrixSlice& slice, const Tensor& x, const Tensor& y,  \
     const Tensor& residual)                                                                       \
  OP(embedding_range, const Tensor& ids, std::int64_t first, const Tensor& table, const Tensor& x) \
  OP(embedding_range_backward, const Tensor& ids, std::int64_t first, const Tensor& dx,            \
     const Tensor& dtable)                                                                         \
  OP(add_rows, const Tensor& table, const Tensor& rows, const Tensor& x)                           \
  OP(add_positions, const Tensor& positions, std::int64_t first, const Tensor& x)                  \
  OP(positions_backward, const Tensor& dx, std::int64_t first, const Tensor& dpositions)           \
  OP(cross_entropy, const Tensor& logits, const Tensor& targets, float scale, const Tensor& loss,  \
     const Tensor& dlogits, const Tensor& token_losses)                                            \
  OP(vocab_max, const Tensor& logits, std::int64_t valid, const Tensor& max)                       \
  OP(vocab_sums, const Tensor& logits, const VocabColumns& columns, const Tensor& targets,         \
     const Tensor& max, const Tensor& sums)                                                        \
  OP(vocab_loss, const Tensor& exponentials, const VocabColumns& columns, const Tensor& targets,   \
     const Tensor& sums, const VocabLoss& loss, const Tensor& sum, const Tensor& dlogits,          \
     const Tensor& token_losses)                                                                   \
  OP(sum_losses, const Tensor& token_losses, const Tensor& sum)                                    \
  OP(sums_of_squares, const Tensor& x, std::int64_t piece, const Tensor& sums)                     \
  OP(adamw, std::span<const AdamWUpdate> updates)
/// How a back end declares them: its part of op `name` is run_name().
#define TROUPE_DECLARE_OP(name, ...) void run_##name(Stream& stream, __VA_ARGS__) override;

}  // namespace troupe::tensor
