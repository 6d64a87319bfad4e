#pragma once

#include "tensor/device/ops.h"
#include "tests/support/async_stream.h"

namespace troupe::test {

/// The ops of an AsyncDevice: each is queued on its stream as the CPU's, with the memory that it
/// reads and writes.
class AsyncOps final : public tensor::Ops {
  using Ops = tensor::Ops;
  using Stream = tensor::Stream;
  using Tensor = tensor::Tensor;
  using Pieces = std::initializer_list<Piece>;

  static AsyncStream& async(Stream& stream) { return static_cast<AsyncStream&>(stream); }
  template <typename Method, typename... Args>
  static void submit(Stream& stream, Pieces reads, Pieces writes, Method method,
                     const Args&... args) {
    async(stream).submit(reads, writes, async(stream).ops(), method, args...);
  }

  void run_fill_zero(Stream& stream, const Tensor& x) override {
    submit(stream, {}, {x}, &Ops::fill_zero, x);
  }
  void run_copy(Stream& stream, const Tensor& src, const Tensor& dst) override {
    submit(stream, {src}, {dst}, &Ops::copy, src, dst);
  }
  void run_accumulate(Stream& stream, const Tensor& x, const Tensor& y) override {
    submit(stream, {x}, {y}, &Ops::accumulate, x, y);
  }
  void run_copy_columns(Stream& stream, const Tensor& src, std::int64_t from, const Tensor& dst,
                        std::int64_t to, std::int64_t count) override {
    submit(stream, {src}, {dst}, &Ops::copy_columns, src, from, dst, to, count);
  }
  void run_scale(Stream& stream, const Tensor& x, float factor, const Tensor& y) override {
    submit(stream, {x}, {y}, &Ops::scale, x, factor, y);
  }
  void run_add_scaled(Stream& stream, const Tensor& x, float factor, const Tensor& residual,
                      const Tensor& y) override {
    submit(stream, {x, residual}, {y}, &Ops::add_scaled, x, factor, residual, y);
  }
  void run_cap_logits(Stream& stream, const Tensor& x, float scale, float cap,
                      const Tensor& y) override {
    submit(stream, {x}, {y}, &Ops::cap_logits, x, scale, cap, y);
  }
  void run_cap_logits_backward(Stream& stream, const Tensor& y, const Tensor& dy, float scale,
                               float cap, const Tensor& dx) override {
    submit(stream, {y, dy}, {dx}, &Ops::cap_logits_backward, y, dy, scale, cap, dx);
  }
  void run_rms_norm(Stream& stream, const Tensor& x, const Tensor& w, float eps, float plus,
                    const Tensor& y, const Tensor& rstd) override {
    submit(stream, {x, w}, {y, rstd}, &Ops::rms_norm, x, w, eps, plus, y, rstd);
  }
  void run_rms_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                             float plus, const Tensor& rstd, const Tensor& residual,
                             const Tensor& dx, const Tensor& dw) override {
    submit(stream, {dy, x, w, rstd, residual}, {dx, dw}, &Ops::rms_norm_backward, dy, x, w, plus,
           rstd, residual, dx, dw);
  }
  // The columns of other heads stay, as a part of what is written.
  void run_head_norm(Stream& stream, const Tensor& x, const tensor::HeadColumns& heads,
                     const Tensor& w, float eps, float plus, const Tensor& y, const Tensor& squares,
                     std::int64_t width) override {
    submit(stream, {x, w, squares}, {y}, &Ops::head_norm, x, heads, w, eps, plus, y, squares,
           width);
  }
  void run_head_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x,
                              const tensor::HeadColumns& heads, const Tensor& w, float eps,
                              float plus, const Tensor& dx, const Tensor& dw, const Tensor& squares,
                              const Tensor& dots, std::int64_t width) override {
    submit(stream, {dy, x, w, squares, dots}, {dx, dw}, &Ops::head_norm_backward, dy, x, heads, w,
           eps, plus, dx, dw, squares, dots, width);
  }
  void run_head_squares(Stream& stream, const Tensor& x, const tensor::HeadColumns& columns,
                        const Tensor& squares) override {
    submit(stream, {x}, {squares}, &Ops::head_squares, x, columns, squares);
  }
  void run_head_dots(Stream& stream, const Tensor& dy, const Tensor& x,
                     const tensor::HeadColumns& columns, const Tensor& w, float plus,
                     const Tensor& dots) override {
    submit(stream, {dy, x, w}, {dots}, &Ops::head_dots, dy, x, columns, w, plus, dots);
  }
  void run_layer_norm(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                      const Tensor& y, const Tensor& mean, const Tensor& rstd) override {
    submit(stream, {x, w, b}, {y, mean, rstd}, &Ops::layer_norm, x, w, b, eps, y, mean, rstd);
  }
  void run_layer_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                               const Tensor& mean, const Tensor& rstd, const Tensor& residual,
                               const Tensor& dx, const Tensor& dw, const Tensor& db) override {
    submit(stream, {dy, x, w, mean, rstd, residual}, {dx, dw, db}, &Ops::layer_norm_backward, dy, x,
           w, mean, rstd, residual, dx, dw, db);
  }
  void run_swiglu(Stream& stream, const Tensor& gate_up, const Tensor& y) override {
    submit(stream, {gate_up}, {y}, &Ops::swiglu, gate_up, y);
  }
  void run_swiglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& dy,
                           const Tensor& dgate_up) override {
    submit(stream, {gate_up, dy}, {dgate_up}, &Ops::swiglu_backward, gate_up, dy, dgate_up);
  }
  void run_geglu(Stream& stream, const Tensor& gate_up, const Tensor& y) override {
    submit(stream, {gate_up}, {y}, &Ops::geglu, gate_up, y);
  }
  void run_geglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& dy,
                          const Tensor& dgate_up) override {
    submit(stream, {gate_up, dy}, {dgate_up}, &Ops::geglu_backward, gate_up, dy, dgate_up);
  }
  void run_gelu(Stream& stream, const Tensor& x, const Tensor& y) override {
    submit(stream, {x}, {y}, &Ops::gelu, x, y);
  }
  void run_gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy,
                         const Tensor& dx) override {
    submit(stream, {x, dy}, {dx}, &Ops::gelu_backward, x, dy, dx);
  }
  void run_route(Stream& stream, const Tensor& logits, const tensor::RouterShape& router,
                 const Tensor& probs, const Tensor& chosen, const Tensor& weights,
                 const Tensor& lse) override {
    submit(stream, {logits}, {probs, chosen, weights, lse}, &Ops::route, logits, router, probs,
           chosen, weights, lse);
  }
  void run_route_backward(Stream& stream, const Tensor& probs, const Tensor& chosen,
                          const Tensor& weights, const Tensor& dweights,
                          const tensor::RouterShape& router, const tensor::RouterLosses& losses,
                          const Tensor& dlogits) override {
    submit(stream, {probs, chosen, weights, dweights, losses.balance, losses.lse, losses.counted},
           {dlogits}, &Ops::route_backward, probs, chosen, weights, dweights, router, losses,
           dlogits);
  }
  void run_router_load(Stream& stream, const Tensor& probs, const Tensor& chosen, const Tensor& lse,
                       const Tensor& counted, const Tensor& load) override {
    submit(stream, {probs, chosen, lse, counted}, {load}, &Ops::router_load, probs, chosen, lse,
           counted, load);
  }
  void run_sort_rows(Stream& stream, const Tensor& chosen, const Tensor& weights,
                     const Tensor& offsets, const Tensor& row_of, const Tensor& token_of,
                     const Tensor& row_weights) override {
    submit(stream, {chosen, weights}, {offsets, row_of, token_of, row_weights}, &Ops::sort_rows,
           chosen, weights, offsets, row_of, token_of, row_weights);
  }
  void run_gather_rows(Stream& stream, const Tensor& x, const Tensor& rows,
                       const Tensor& y) override {
    submit(stream, {x, rows}, {y}, &Ops::gather_rows, x, rows, y);
  }
  void run_sum_rows(Stream& stream, const Tensor& x, const Tensor& row_of, const Tensor& y,
                    const Tensor& residual) override {
    submit(stream, {x, row_of, residual}, {y}, &Ops::sum_rows, x, row_of, y, residual);
  }
  void run_weighted_swiglu(Stream& stream, const Tensor& gate_up, const Tensor& weights,
                           const Tensor& y) override {
    submit(stream, {gate_up, weights}, {y}, &Ops::weighted_swiglu, gate_up, weights, y);
  }
  void run_weighted_swiglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& weights,
                                    const Tensor& dy, const Tensor& dgate_up,
                                    const Tensor& dweights) override {
    submit(stream, {gate_up, weights, dy}, {dgate_up, dweights}, &Ops::weighted_swiglu_backward,
           gate_up, weights, dy, dgate_up, dweights);
  }
  void run_add_bias(Stream& stream, const Tensor& b, const Tensor& y,
                    const Tensor& residual) override {
    submit(stream, {b, residual}, {y}, &Ops::add_bias, b, y, residual);
  }
  void run_bias_gradient(Stream& stream, const Tensor& dy, const Tensor& db,
                         tensor::Gradient gradient) override {
    submit(stream, {dy}, {db}, &Ops::bias_gradient, dy, db, gradient);
  }
  void run_dropout(Stream& stream, const tensor::Dropout& dropout, const tensor::MatrixSlice& slice,
                   const Tensor& x, const Tensor& y, const Tensor& residual) override {
    submit(stream, {x, residual}, {y}, &Ops::dropout, dropout, slice, x, y, residual);
  }
  void run_add_positions(Stream& stream, const Tensor& positions, std::int64_t first,
                         const Tensor& x) override {
    submit(stream, {positions}, {x}, &Ops::add_positions, positions, first, x);
  }
  void run_add_rows(Stream& stream, const Tensor& table, const Tensor& rows,
                    const Tensor& x) override {
    submit(stream, {table, rows}, {x}, &Ops::add_rows, table, rows, x);
  }
  void run_positions_backward(Stream& stream, const Tensor& dx, std::int64_t first,
                              const Tensor& dpositions) override {
    submit(stream, {dx}, {dpositions}, &Ops::positions_backward, dx, first, dpositions);
  }
  void run_embedding_range(Stream& stream, const Tensor& ids, std::int64_t first,
                           const Tensor& table, const Tensor& x) override {
    submit(stream, {ids, table}, {x}, &Ops::embedding_range, ids, first, table, x);
  }
  void run_embedding_range_backward(Stream& stream, const Tensor& ids, std::int64_t first,
                                    const Tensor& dx, const Tensor& dtable) override {
    submit(stream, {ids, dx}, {dtable}, &Ops::embedding_range_backward, ids, first, dx, dtable);
  }
  void run_cross_entropy(Stream& stream, const Tensor& logits, const Tensor& targets, float scale,
                         const Tensor& loss, const Tensor& dlogits,
                         const Tensor& token_losses) override {
    submit(stream, {logits, targets}, {loss, dlogits, token_losses}, &Ops::cross_entropy, logits,
           targets, scale, loss, dlogits, token_losses);
  }
  void run_vocab_max(Stream& stream, const Tensor& logits, std::int64_t valid,
                     const Tensor& max) override {
    submit(stream, {logits}, {max}, &Ops::vocab_max, logits, valid, max);
  }
  void run_vocab_sums(Stream& stream, const Tensor& logits, const tensor::VocabColumns& columns,
                      const Tensor& targets, const Tensor& max, const Tensor& sums) override {
    submit(stream, {targets, max}, {logits, sums}, &Ops::vocab_sums, logits, columns, targets, max,
           sums);
  }
  void run_vocab_loss(Stream& stream, const Tensor& exponentials,
                      const tensor::VocabColumns& columns, const Tensor& targets,
                      const Tensor& sums, const tensor::VocabLoss& loss, const Tensor& sum,
                      const Tensor& dlogits, const Tensor& token_losses) override {
    submit(stream, {exponentials, targets, sums}, {sum, dlogits, token_losses}, &Ops::vocab_loss,
           exponentials, columns, targets, sums, loss, sum, dlogits, token_losses);
  }
  void run_sum_losses(Stream& stream, const Tensor& token_losses, const Tensor& sum) override {
    submit(stream, {token_losses}, {sum}, &Ops::sum_losses, token_losses, sum);
  }
  void run_sums_of_squares(Stream& stream, const Tensor& x, std::int64_t piece,
                           const Tensor& sums) override {
    submit(stream, {x}, {sums}, &Ops::sums_of_squares, x, piece, sums);
  }
  void run_adamw(Stream& stream, std::span<const tensor::AdamWUpdate> updates) override {
    const auto one = [](tensor::Ops& ops, Stream& on, const tensor::AdamWUpdate& update) {
      ops.adamw(on, {&update, 1});
    };
    for (const auto& u : updates) {
      tensor::AdamWUpdate open = u;
      for (Tensor* x : {&open.gradient, &open.w, &open.m, &open.v, &open.w_out, &open.m_out,
                        &open.v_out, &open.copy})
        *x = opened(*x);
      submit(stream, {u.gradient, u.w, u.m, u.v}, {u.w_out, u.m_out, u.v_out, u.copy}, one, open);
    }
  }
};

}  // namespace troupe::test
