#pragma once

#include <cstdint>
#include <span>

#include "tensor/device/op_list.h"

// Shape letters: T tokens of a microbatch (batch * sequence), C channels, F feed-forward width, V
// vocabulary, N any number of elements. "act" = float32 or bfloat16 (all act tensors of a call have
// one dtype); arithmetic is float32 throughout. Every op gives the same bits for the same input and
// number of threads.

namespace troupe::tensor {

/// Element-wise and row-wise ops of one device. No call allocates, except scratch memory, which
/// each stream has of its own and which grows with the largest shape seen. Every call asserts that
/// its arguments fit together, and queues the op on its stream.
class Ops {
 public:
  virtual ~Ops() = default;

  void fill_zero(Stream& stream, const Tensor& x);
  /// dst = src, converting between float32 and bfloat16 if the dtypes differ. N elements each.
  void copy(Stream& stream, const Tensor& src, const Tensor& dst);
  /// y[N] += x[N], both act.
  void accumulate(Stream& stream, const Tensor& x, const Tensor& y);
  /// Columns [to, to + count) of dst[T,N] = columns [from, from + count) of src[T,M], of one dtype.
  /// The other columns of dst stay. The two do not overlap.
  void copy_columns(Stream& stream, const Tensor& src, std::int64_t from, const Tensor& dst,
                    std::int64_t to, std::int64_t count);

  /// y[N] = factor * x[N], act. y may be x itself.
  void scale(Stream& stream, const Tensor& x, float factor, const Tensor& y);
  /// y[N] = residual[N] + factor * x[N], act. y may be x or residual itself.
  void add_scaled(Stream& stream, const Tensor& x, float factor, const Tensor& residual,
                  const Tensor& y);
  /// y[N] = cap * tanh(x * scale / cap), the soft cap of Gemma 2 (arXiv 2408.00118), or x * scale
  /// if cap is 0; x, y float32. y may be x itself.
  void cap_logits(Stream& stream, const Tensor& x, float scale, float cap, const Tensor& y);
  /// dx[N] = dy * scale * (1 - (y / cap)^2) from the y[N] of cap_logits() (float32; not read if cap
  /// is 0, dx being dy * scale); dy, dx act. dx may be dy itself, or y if it is float32.
  void cap_logits_backward(Stream& stream, const Tensor& y, const Tensor& dy, float scale,
                           float cap, const Tensor& dx);

  /// y[T,C] = x * rstd * (plus + w); rstd[T] float32 = 1/sqrt(mean(x^2) + eps); w[C] float32; x, y
  /// act. plus is 0 or 1.
  void rms_norm(Stream& stream, const Tensor& x, const Tensor& w, float eps, float plus,
                const Tensor& y, const Tensor& rstd);
  /// dx[T,C] = residual[T,C] (if given) + gradient of rms_norm at dy[T,C]; dw[C] float32 is
  /// overwritten with this call's weight gradient. dx may be residual or dy itself.
  void rms_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                         float plus, const Tensor& rstd, const Tensor& residual, const Tensor& dx,
                         const Tensor& dw);
  /// y[T,C] = (x - mean) * rstd * w + b, with mean[T] and rstd[T] = 1/sqrt(variance + eps) of each
  /// row (float32); w, b [C] float32; x, y act. Layer normalization, arXiv 1607.06450.
  void layer_norm(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                  const Tensor& y, const Tensor& mean, const Tensor& rstd);
  /// dx[T,C] = residual[T,C] (if given) + gradient of layer_norm at dy[T,C]; dw and db [C] float32
  /// are overwritten with this call's gradients. dx may be residual or dy itself. Any number of
  /// threads gives the same bits.
  void layer_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                           const Tensor& mean, const Tensor& rstd, const Tensor& residual,
                           const Tensor& dx, const Tensor& dw, const Tensor& db);

  /// rms_norm() of each head of each row by itself: y[T,N] = x[T,N] * rstd * (plus + w[dim]) in the
  /// columns of `heads`; the other columns of y stay. x, y act, w float32. y may be x itself. If
  /// the columns are one head of which other shards have parts, squares[T] (float32) is given, the
  /// sums of head_squares() over all shards, and width, their columns all together.
  void head_norm(Stream& stream, const Tensor& x, const HeadColumns& heads, const Tensor& w,
                 float eps, float plus, const Tensor& y, const Tensor& squares = {},
                 std::int64_t width = 0);
  /// Columns of `heads` of dx[T,N] = gradient of head_norm at dy[T,N] from its x, of which rstd is
  /// computed again; dw[dim] float32 is overwritten with this call's weight gradient, the sum over
  /// rows and heads. dx may be dy itself. With squares, dots[T] is given too, the sums of
  /// head_dots() over all shards. Any number of threads gives the same bits.
  void head_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x,
                          const HeadColumns& heads, const Tensor& w, float eps, float plus,
                          const Tensor& dx, const Tensor& dw, const Tensor& squares = {},
                          const Tensor& dots = {}, std::int64_t width = 0);
  /// squares[T] (float32) = the sum of x^2 over the columns of x[T,N], which are one head.
  void head_squares(Stream& stream, const Tensor& x, const HeadColumns& columns,
                    const Tensor& squares);
  /// dots[T] (float32) = the sum of dy * (plus + w) * x over the columns, which are one head.
  void head_dots(Stream& stream, const Tensor& dy, const Tensor& x, const HeadColumns& columns,
                 const Tensor& w, float plus, const Tensor& dots);

  /// y[T,F] = silu(g) * u, where gate_up[T,2F] holds g in columns 0..F-1 and u in F..2F-1.
  void swiglu(Stream& stream, const Tensor& gate_up, const Tensor& y);
  /// dgate_up[T,2F] from gate_up and dy[T,F]; dgate_up may be gate_up itself.
  void swiglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& dy,
                       const Tensor& dgate_up);
  /// swiglu() with gelu() in the place of silu (GeGLU, arXiv 2002.05202), and its gradient.
  void geglu(Stream& stream, const Tensor& gate_up, const Tensor& y);
  void geglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& dy,
                      const Tensor& dgate_up);
  /// y[N] = x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, the tanh form of GELU (arXiv
  /// 1606.08415, GPT-2's "gelu_new"); x, y act. y may be x itself.
  void gelu(Stream& stream, const Tensor& x, const Tensor& y);
  /// dx[N] from x and dy[N]; dx may be x or dy itself.
  void gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx);

  // Mixtures of experts: E experts, K of them for each token, R rows that experts multiply, in
  // general T K. Any number of threads gives the same bits. Every op takes 0 rows.

  /// probs[T,E] = softmax(logits[T,E]), of which each token takes the K largest, of equal ones that
  /// of the lower index: chosen[T,K] (int32) are their indices, ascending, weights[T,K] their
  /// probabilities, divided by their sum if the router normalizes. lse[T], if given: the logarithm
  /// of the sum of e^logits. All others float32. A NaN counts as largest. probs may be logits.
  void route(Stream& stream, const Tensor& logits, const RouterShape& router, const Tensor& probs,
             const Tensor& chosen, const Tensor& weights, const Tensor& lse = {});
  /// dlogits[T,E] (float32) from what route() gave, the gradient dweights[T,K] (float32) and those
  /// of the losses; the choice has none. dlogits may be probs.
  void route_backward(Stream& stream, const Tensor& probs, const Tensor& chosen,
                      const Tensor& weights, const Tensor& dweights, const RouterShape& router,
                      const RouterLosses& losses, const Tensor& dlogits);
  /// What a router does with the tokens that count (RouterLosses::counted), load[2E+3] (float32):
  /// f_e, how many of them chose expert e, divided by their number; P_e, the mean of probs[.,e];
  /// the mean of -sum p ln p; the mean of lse^2 (0 without lse); E * sum f_e P_e. Zeros if none
  /// counts. It may lie in pinned memory.
  void router_load(Stream& stream, const Tensor& probs, const Tensor& chosen, const Tensor& lse,
                   const Tensor& counted, const Tensor& load);
  /// The T K choices in the order of their expert (chosen[T,K], int32, each < E), those of an
  /// expert in the order of chosen: expert e has rows offsets[e] to offsets[e + 1] - 1 of offsets[E
  /// + 1]. row_of[T,K] is the row of a choice, token_of[T K] the token of a row, row_weights[T K]
  /// its weight of weights[T,K] (float32). All int32 but weights.
  void sort_rows(Stream& stream, const Tensor& chosen, const Tensor& weights, const Tensor& offsets,
                 const Tensor& row_of, const Tensor& token_of, const Tensor& row_weights);
  /// y[R,C] = the rows rows[R] (int32, each < T) of x[T,C], act of one dtype; C may be 1, which
  /// gathers numbers. Its gradient is sum_rows(), of numbers gather_rows() by the inverse order.
  void gather_rows(Stream& stream, const Tensor& x, const Tensor& rows, const Tensor& y);
  /// y[T,C] = the sum of K rows of x[R,C], row_of[T,K] (int32, each < R) in this order (+
  /// residual[T,C], if given, at last), rounded once; act. y may be residual.
  void sum_rows(Stream& stream, const Tensor& x, const Tensor& row_of, const Tensor& y,
                const Tensor& residual = {});
  /// swiglu() times weights[R] (float32), a number for each row.
  void weighted_swiglu(Stream& stream, const Tensor& gate_up, const Tensor& weights,
                       const Tensor& y);
  /// dgate_up[R,2F] and dweights[R] (float32) from dy[R,F]; dgate_up may be gate_up, dweights
  /// weights.
  void weighted_swiglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& weights,
                                const Tensor& dy, const Tensor& dgate_up, const Tensor& dweights);

  /// y[T,C] += b[C] (float32) (+ residual[T,C], if given, in the same pass); y, residual act.
  void add_bias(Stream& stream, const Tensor& b, const Tensor& y, const Tensor& residual = {});
  /// db[C] (float32) = the column sums of dy[T,C] (act) for the first gradient, whatever db held;
  /// db += them, with one addition per element, for the later ones. Their order depends on T alone:
  /// any number of threads gives the same bits.
  void bias_gradient(Stream& stream, const Tensor& dy, const Tensor& db, Gradient gradient);

  /// y[R,C] = x[R,C] where kept, times 1/(1 - p), and 0 where dropped (+ residual[R,C], if given);
  /// act. x is the part `slice` of the global tensor whose elements are drawn. The gradient of x is
  /// dropout of y's. y may be x or residual itself.
  void dropout(Stream& stream, const Dropout& dropout, const MatrixSlice& slice, const Tensor& x,
               const Tensor& y, const Tensor& residual = {});

  /// x[T,C] (act) = table[V,C] (float32) at ids[T] (int32, each < V): embedding_range() of all
  /// rows.
  void embedding(Stream& stream, const Tensor& ids, const Tensor& table, const Tensor& x);
  /// dtable[V,C] (float32) += dx[T,C] (act) at ids[T], in ascending token order.
  void embedding_backward(Stream& stream, const Tensor& ids, const Tensor& dx,
                          const Tensor& dtable);
  /// x[T,C] (act) += positions[S,C] (float32) at (first + t) mod S, where `first` is the place of
  /// x's first token among the flattened tokens of the microbatch.
  void add_positions(Stream& stream, const Tensor& positions, std::int64_t first, const Tensor& x);
  /// dpositions[S,C] (float32) += dx[T,C] (act) at (first + t) mod S, in ascending token order.
  void positions_backward(Stream& stream, const Tensor& dx, std::int64_t first,
                          const Tensor& dpositions);
  /// x[T,C] (act) += table[V,C] (float32) at rows[T] (int32, each < V). The gradient of the table
  /// is embedding_backward().
  void add_rows(Stream& stream, const Tensor& table, const Tensor& rows, const Tensor& x);
  /// embedding() for a shard whose table[R,C] is rows [first, first + R) of a larger one: a token
  /// of another id gets a row of zeros.
  void embedding_range(Stream& stream, const Tensor& ids, std::int64_t first, const Tensor& table,
                       const Tensor& x);
  /// embedding_backward() for such a shard: a token of another id gives no gradient.
  void embedding_range_backward(Stream& stream, const Tensor& ids, std::int64_t first,
                                const Tensor& dx, const Tensor& dtable);

  /// loss (float64, one element) = the sum over T of -log softmax(logits[T,V])[target]; logits
  /// float32, targets[T] int32, each < V or kNoTarget. If dlogits (act) is given: dlogits =
  /// (softmax - onehot) * scale; it may be logits itself if it is float32. If token_losses[T]
  /// (float64) is given: each token's part of the sum, 0 without a target. Both may lie in pinned
  /// memory.
  void cross_entropy(Stream& stream, const Tensor& logits, const Tensor& targets, float scale,
                     const Tensor& loss, const Tensor& dlogits = {},
                     const Tensor& token_losses = {});

  // The cross-entropy of logits[T,V] (float32) that are a shard's columns, in three parts. Between
  // them the caller reduces over the shards what the part gave: the maximum, then the sums.

  /// max[T] (float32) = the maximum of the first `valid` columns; minus infinity if there is none.
  void vocab_max(Stream& stream, const Tensor& logits, std::int64_t valid, const Tensor& max);
  /// Replaces logits by exp(logits - max[T]), and padding by 0. sums[2 or 3, T] (float32) = the sum
  /// of these exponentials; the target's logit - max, 0 if another shard has it; the sum of logits
  /// - max, which only label smoothing needs. targets[T] int32.
  void vocab_sums(Stream& stream, const Tensor& logits, const VocabColumns& columns,
                  const Tensor& targets, const Tensor& max, const Tensor& sums);
  /// sum (float64, one element) = the loss summed over T, each target a class or the ignored one.
  /// If dlogits[T,V] (act) is given: the gradient of the shard's columns, times scale, and 0 for
  /// padding; it may be exponentials itself if it is float32. token_losses as of cross_entropy().
  void vocab_loss(Stream& stream, const Tensor& exponentials, const VocabColumns& columns,
                  const Tensor& targets, const Tensor& sums, const VocabLoss& loss,
                  const Tensor& sum, const Tensor& dlogits = {}, const Tensor& token_losses = {});

  /// sum (float64, one element) = the sum of token_losses[T] (float64), added as cross_entropy()
  /// and vocab_loss() add those of T tokens: a loss computed in parts is that of one call, bit for
  /// bit.
  void sum_losses(Stream& stream, const Tensor& token_losses, const Tensor& sum);

  /// sums[i] (float64) = the sum of squares of the i-th `piece` elements of x[N] (float32), of
  /// which the last may be fewer: N / piece, rounded up, of them. Each is accumulated in float64 in
  /// an order that depends on its number of elements alone.
  void sums_of_squares(Stream& stream, const Tensor& x, std::int64_t piece, const Tensor& sums);

  /// AdamW updates of parameters that do not overlap. A GPU makes as many of them in a launch as it
  /// can.
  void adamw(Stream& stream, std::span<const AdamWUpdate> updates);

 private:
#define TROUPE_PURE_OP(name, ...) virtual void run_##name(Stream& stream, __VA_ARGS__) = 0;
  TROUPE_OPS(TROUPE_PURE_OP)
#undef TROUPE_PURE_OP
};

}  // namespace troupe::tensor
