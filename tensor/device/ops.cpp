#include "tensor/device/ops.h"

#include "tensor/errors/error.h"

// What the arguments of an op must be, on every back end.

namespace troupe::tensor {
namespace {

bool is_act(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16;
}

bool is_of(const Tensor& x, DType dtype, std::int64_t elements) {
  return x.dtype == dtype && x.num_elements() == elements;
}

bool are_alike(const Tensor& x, const Tensor& y) {
  return is_of(x, y.dtype, y.num_elements());
}

bool are_of_one_size(const Tensor& x, const Tensor& y) {
  return x.num_elements() == y.num_elements();
}

bool is_matrix(const Tensor& x, DType dtype) {
  return x.dtype == dtype && x.shape.rank() == 2;
}

void check_norm(const Tensor& x, const Tensor& y, const Tensor& w, const Tensor& rstd) {
  TROUPE_ASSERT(is_act(x.dtype) && are_alike(x, y));
  TROUPE_ASSERT(w.dtype == DType::f32 && rstd.dtype == DType::f32);
  TROUPE_ASSERT(x.num_elements() == rstd.num_elements() * w.num_elements());
}

void check_norm_backward(const Tensor& dy, const Tensor& x, const Tensor& w, const Tensor& rstd,
                         const Tensor& residual, const Tensor& dx, const Tensor& dw) {
  check_norm(x, dx, w, rstd);
  TROUPE_ASSERT(are_alike(dy, x) && are_alike(dw, w));
  TROUPE_ASSERT(!residual || are_alike(residual, x));
}

void check_heads(const Tensor& x, const HeadColumns& heads) {
  TROUPE_ASSERT(is_act(x.dtype) && x.shape.rank() == 2);
  TROUPE_ASSERT(heads.heads >= 1 && heads.dim >= 1 && heads.first >= 0);
  TROUPE_ASSERT(heads.first + heads.count() <= x.shape[1]);
}

/// Of `sums` that shards have added, if they did.
void check_row_sums(const Tensor& x, const HeadColumns& heads, const Tensor& sums,
                    std::int64_t width) {
  if (!sums) return;
  TROUPE_ASSERT(heads.heads == 1 && width >= heads.dim && is_of(sums, DType::f32, x.shape[0]));
}

void check_gated(const Tensor& gate_up, const Tensor& y) {
  TROUPE_ASSERT(is_act(y.dtype) && y.shape.rank() == 2);
  TROUPE_ASSERT(is_of(gate_up, y.dtype, 2 * y.num_elements()));
}

/// Asserts that each id is a row of the table, if the host sees them: a GPU takes others for ids of
/// another shard.
void check_ids(Stream& stream, const Tensor& ids, const Tensor& table) {
  if (!stream.device().host_reads_memory()) return;
  for (std::int64_t t = 0; t < ids.num_elements(); ++t) {
    const std::int32_t id = ids.as<std::int32_t>()[t];
    TROUPE_ASSERT(id >= 0 && id < table.shape[0]);
  }
}

/// As check_ids(): a GPU makes the loss a NaN.
void check_targets(Stream& stream, const Tensor& targets, std::int64_t classes,
                   std::int32_t ignored) {
  if (!stream.device().host_reads_memory()) return;
  for (std::int64_t t = 0; t < targets.num_elements(); ++t) {
    const std::int32_t target = targets.as<std::int32_t>()[t];
    TROUPE_ASSERT(target == ignored || (target >= 0 && target < classes));
  }
}

void check_lookup(const Tensor& ids, const Tensor& table, const Tensor& x) {
  TROUPE_ASSERT(ids.dtype == DType::i32 && is_matrix(table, DType::f32) && is_act(x.dtype));
  TROUPE_ASSERT(x.num_elements() == ids.num_elements() * table.shape[1]);
}

void check_positions(const Tensor& positions, std::int64_t first, const Tensor& x) {
  TROUPE_ASSERT(is_matrix(positions, DType::f32) && is_act(x.dtype) && first >= 0);
  TROUPE_ASSERT(x.num_elements() % positions.shape[1] == 0);
}

void check_vocab(const Tensor& logits, std::int64_t valid) {
  TROUPE_ASSERT(is_matrix(logits, DType::f32) && valid >= 0 && valid <= logits.shape[1]);
}

void check_sums(const Tensor& sums, const Tensor& targets, std::int64_t rows) {
  TROUPE_ASSERT(is_of(targets, DType::i32, rows));
  TROUPE_ASSERT(is_matrix(sums, DType::f32) && sums.shape[1] == rows);
  TROUPE_ASSERT(sums.shape[0] == 2 || sums.shape[0] == 3);
}

void check_loss(const Tensor& loss, const Tensor& logits, const Tensor& dlogits,
                const Tensor& token_losses) {
  TROUPE_ASSERT(is_of(loss, DType::f64, 1));
  TROUPE_ASSERT(!dlogits || is_act(dlogits.dtype));
  TROUPE_ASSERT(!dlogits || dlogits.num_elements() == logits.num_elements());
  TROUPE_ASSERT(!token_losses || is_of(token_losses, DType::f64, logits.shape[0]));
}

}  // namespace

void Ops::fill_zero(Stream& stream, const Tensor& x) {
  run_fill_zero(stream, x);
}

void Ops::copy(Stream& stream, const Tensor& src, const Tensor& dst) {
  TROUPE_ASSERT(src.num_elements() == dst.num_elements());
  TROUPE_ASSERT(src.dtype == dst.dtype || (is_act(src.dtype) && is_act(dst.dtype)));
  run_copy(stream, src, dst);
}

void Ops::accumulate(Stream& stream, const Tensor& x, const Tensor& y) {
  TROUPE_ASSERT(is_act(y.dtype) && are_alike(x, y));
  run_accumulate(stream, x, y);
}

void Ops::copy_columns(Stream& stream, const Tensor& src, std::int64_t from, const Tensor& dst,
                       std::int64_t to, std::int64_t count) {
  TROUPE_ASSERT(src.dtype == dst.dtype && src.shape.rank() == 2 && dst.shape.rank() == 2);
  TROUPE_ASSERT(src.shape[0] == dst.shape[0] && count >= 0);
  TROUPE_ASSERT(from >= 0 && from + count <= src.shape[1]);
  TROUPE_ASSERT(to >= 0 && to + count <= dst.shape[1]);
  run_copy_columns(stream, src, from, dst, to, count);
}

void Ops::scale(Stream& stream, const Tensor& x, float factor, const Tensor& y) {
  TROUPE_ASSERT(is_act(y.dtype) && are_alike(x, y));
  run_scale(stream, x, factor, y);
}

void Ops::add_scaled(Stream& stream, const Tensor& x, float factor, const Tensor& residual,
                     const Tensor& y) {
  TROUPE_ASSERT(is_act(y.dtype) && are_alike(x, y) && are_alike(residual, y));
  run_add_scaled(stream, x, factor, residual, y);
}

void Ops::cap_logits(Stream& stream, const Tensor& x, float scale, float cap, const Tensor& y) {
  TROUPE_ASSERT(x.dtype == DType::f32 && are_alike(y, x) && cap >= 0);
  run_cap_logits(stream, x, scale, cap, y);
}

void Ops::cap_logits_backward(Stream& stream, const Tensor& y, const Tensor& dy, float scale,
                              float cap, const Tensor& dx) {
  TROUPE_ASSERT(is_act(dx.dtype) && are_alike(dy, dx) && cap >= 0);
  TROUPE_ASSERT(cap == 0 || is_of(y, DType::f32, dx.num_elements()));
  run_cap_logits_backward(stream, y, dy, scale, cap, dx);
}

void Ops::rms_norm(Stream& stream, const Tensor& x, const Tensor& w, float eps, float plus,
                   const Tensor& y, const Tensor& rstd) {
  check_norm(x, y, w, rstd);
  run_rms_norm(stream, x, w, eps, plus, y, rstd);
}

void Ops::rms_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                            float plus, const Tensor& rstd, const Tensor& residual,
                            const Tensor& dx, const Tensor& dw) {
  check_norm_backward(dy, x, w, rstd, residual, dx, dw);
  run_rms_norm_backward(stream, dy, x, w, plus, rstd, residual, dx, dw);
}

void Ops::layer_norm(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                     const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  check_norm(x, y, w, rstd);
  TROUPE_ASSERT(are_alike(b, w) && are_alike(mean, rstd));
  run_layer_norm(stream, x, w, b, eps, y, mean, rstd);
}

void Ops::layer_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                              const Tensor& mean, const Tensor& rstd, const Tensor& residual,
                              const Tensor& dx, const Tensor& dw, const Tensor& db) {
  check_norm_backward(dy, x, w, rstd, residual, dx, dw);
  TROUPE_ASSERT(are_alike(db, w) && are_alike(mean, rstd));
  run_layer_norm_backward(stream, dy, x, w, mean, rstd, residual, dx, dw, db);
}

void Ops::head_norm(Stream& stream, const Tensor& x, const HeadColumns& heads, const Tensor& w,
                    float eps, float plus, const Tensor& y, const Tensor& squares,
                    std::int64_t width) {
  check_heads(x, heads);
  TROUPE_ASSERT(are_alike(y, x) && is_of(w, DType::f32, heads.dim));
  check_row_sums(x, heads, squares, width);
  run_head_norm(stream, x, heads, w, eps, plus, y, squares, width);
}

void Ops::head_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x,
                             const HeadColumns& heads, const Tensor& w, float eps, float plus,
                             const Tensor& dx, const Tensor& dw, const Tensor& squares,
                             const Tensor& dots, std::int64_t width) {
  check_heads(x, heads);
  TROUPE_ASSERT(are_alike(dy, x) && are_alike(dx, x));
  TROUPE_ASSERT(is_of(w, DType::f32, heads.dim) && are_alike(dw, w));
  TROUPE_ASSERT(static_cast<bool>(squares) == static_cast<bool>(dots));
  check_row_sums(x, heads, squares, width);
  check_row_sums(x, heads, dots, width);
  run_head_norm_backward(stream, dy, x, heads, w, eps, plus, dx, dw, squares, dots, width);
}

void Ops::head_squares(Stream& stream, const Tensor& x, const HeadColumns& columns,
                       const Tensor& squares) {
  check_heads(x, columns);
  TROUPE_ASSERT(columns.heads == 1 && is_of(squares, DType::f32, x.shape[0]));
  run_head_squares(stream, x, columns, squares);
}

void Ops::head_dots(Stream& stream, const Tensor& dy, const Tensor& x, const HeadColumns& columns,
                    const Tensor& w, float plus, const Tensor& dots) {
  check_heads(x, columns);
  TROUPE_ASSERT(are_alike(dy, x) && is_of(w, DType::f32, columns.dim));
  TROUPE_ASSERT(columns.heads == 1 && is_of(dots, DType::f32, x.shape[0]));
  run_head_dots(stream, dy, x, columns, w, plus, dots);
}

void Ops::swiglu(Stream& stream, const Tensor& gate_up, const Tensor& y) {
  check_gated(gate_up, y);
  run_swiglu(stream, gate_up, y);
}

void Ops::swiglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& dy,
                          const Tensor& dgate_up) {
  check_gated(gate_up, dy);
  TROUPE_ASSERT(are_alike(dgate_up, gate_up));
  run_swiglu_backward(stream, gate_up, dy, dgate_up);
}

void Ops::geglu(Stream& stream, const Tensor& gate_up, const Tensor& y) {
  check_gated(gate_up, y);
  run_geglu(stream, gate_up, y);
}

void Ops::geglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& dy,
                         const Tensor& dgate_up) {
  check_gated(gate_up, dy);
  TROUPE_ASSERT(are_alike(dgate_up, gate_up));
  run_geglu_backward(stream, gate_up, dy, dgate_up);
}

void Ops::gelu(Stream& stream, const Tensor& x, const Tensor& y) {
  TROUPE_ASSERT(is_act(x.dtype) && are_alike(x, y));
  run_gelu(stream, x, y);
}

void Ops::gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  TROUPE_ASSERT(is_act(x.dtype) && are_alike(dy, x) && are_alike(dx, x));
  run_gelu_backward(stream, x, dy, dx);
}

void Ops::add_bias(Stream& stream, const Tensor& b, const Tensor& y, const Tensor& residual) {
  TROUPE_ASSERT(is_act(y.dtype) && y.shape.rank() == 2 && is_of(b, DType::f32, y.shape[1]));
  TROUPE_ASSERT(!residual || are_alike(residual, y));
  run_add_bias(stream, b, y, residual);
}

void Ops::bias_gradient(Stream& stream, const Tensor& dy, const Tensor& db, Gradient gradient) {
  TROUPE_ASSERT(is_act(dy.dtype) && db.dtype == DType::f32);
  TROUPE_ASSERT(dy.num_elements() % db.num_elements() == 0);
  run_bias_gradient(stream, dy, db, gradient);
}

void Ops::dropout(Stream& stream, const Dropout& dropout, const MatrixSlice& slice, const Tensor& x,
                  const Tensor& y, const Tensor& residual) {
  TROUPE_ASSERT(dropout.p >= 0 && dropout.p < 1 && is_act(x.dtype) && are_alike(y, x));
  TROUPE_ASSERT(x.shape.rank() == 2 && slice.first_column + x.shape[1] <= slice.columns);
  TROUPE_ASSERT(!residual || are_alike(residual, x));
  run_dropout(stream, dropout, slice, x, y, residual);
}

void Ops::embedding(Stream& stream, const Tensor& ids, const Tensor& table, const Tensor& x) {
  check_ids(stream, ids, table);
  embedding_range(stream, ids, 0, table, x);
}

void Ops::embedding_backward(Stream& stream, const Tensor& ids, const Tensor& dx,
                             const Tensor& dtable) {
  check_ids(stream, ids, dtable);
  embedding_range_backward(stream, ids, 0, dx, dtable);
}

void Ops::add_positions(Stream& stream, const Tensor& positions, std::int64_t first,
                        const Tensor& x) {
  check_positions(positions, first, x);
  run_add_positions(stream, positions, first, x);
}

void Ops::positions_backward(Stream& stream, const Tensor& dx, std::int64_t first,
                             const Tensor& dpositions) {
  check_positions(dpositions, first, dx);
  run_positions_backward(stream, dx, first, dpositions);
}

void Ops::add_rows(Stream& stream, const Tensor& table, const Tensor& rows, const Tensor& x) {
  check_lookup(rows, table, x);
  check_ids(stream, rows, table);
  run_add_rows(stream, table, rows, x);
}

void Ops::embedding_range(Stream& stream, const Tensor& ids, std::int64_t first,
                          const Tensor& table, const Tensor& x) {
  check_lookup(ids, table, x);
  run_embedding_range(stream, ids, first, table, x);
}

void Ops::embedding_range_backward(Stream& stream, const Tensor& ids, std::int64_t first,
                                   const Tensor& dx, const Tensor& dtable) {
  check_lookup(ids, dtable, dx);
  run_embedding_range_backward(stream, ids, first, dx, dtable);
}

void Ops::cross_entropy(Stream& stream, const Tensor& logits, const Tensor& targets, float scale,
                        const Tensor& loss, const Tensor& dlogits, const Tensor& token_losses) {
  TROUPE_ASSERT(is_matrix(logits, DType::f32) && is_of(targets, DType::i32, logits.shape[0]));
  check_loss(loss, logits, dlogits, token_losses);
  check_targets(stream, targets, logits.shape[1], kNoTarget);
  run_cross_entropy(stream, logits, targets, scale, loss, dlogits, token_losses);
}

void Ops::vocab_max(Stream& stream, const Tensor& logits, std::int64_t valid, const Tensor& max) {
  check_vocab(logits, valid);
  TROUPE_ASSERT(is_of(max, DType::f32, logits.shape[0]));
  run_vocab_max(stream, logits, valid, max);
}

void Ops::vocab_sums(Stream& stream, const Tensor& logits, const VocabColumns& columns,
                     const Tensor& targets, const Tensor& max, const Tensor& sums) {
  check_vocab(logits, columns.valid);
  check_sums(sums, targets, logits.shape[0]);
  TROUPE_ASSERT(is_of(max, DType::f32, logits.shape[0]));
  run_vocab_sums(stream, logits, columns, targets, max, sums);
}

void Ops::vocab_loss(Stream& stream, const Tensor& exponentials, const VocabColumns& columns,
                     const Tensor& targets, const Tensor& sums, const VocabLoss& loss,
                     const Tensor& sum, const Tensor& dlogits, const Tensor& token_losses) {
  check_vocab(exponentials, columns.valid);
  check_sums(sums, targets, exponentials.shape[0]);
  check_loss(sum, exponentials, dlogits, token_losses);
  TROUPE_ASSERT(loss.smoothing == 0 || sums.shape[0] == 3);
  check_targets(stream, targets, loss.classes, loss.ignored);
  run_vocab_loss(stream, exponentials, columns, targets, sums, loss, sum, dlogits, token_losses);
}

void Ops::sum_losses(Stream& stream, const Tensor& token_losses, const Tensor& sum) {
  TROUPE_ASSERT(token_losses.dtype == DType::f64 && is_of(sum, DType::f64, 1));
  run_sum_losses(stream, token_losses, sum);
}

void Ops::sums_of_squares(Stream& stream, const Tensor& x, std::int64_t piece, const Tensor& sums) {
  TROUPE_ASSERT(x.dtype == DType::f32 && piece > 0);
  TROUPE_ASSERT(is_of(sums, DType::f64, (x.num_elements() + piece - 1) / piece));
  run_sums_of_squares(stream, x, piece, sums);
}

void Ops::adamw(Stream& stream, std::span<const AdamWUpdate> updates) {
  for (const AdamWUpdate& u : updates) {
    for (const Tensor* x : {&u.gradient, &u.w, &u.m, &u.v, &u.w_out, &u.m_out, &u.v_out})
      TROUPE_ASSERT(is_of(*x, DType::f32, u.gradient.num_elements()));
    TROUPE_ASSERT(!u.copy || (is_act(u.copy.dtype) && are_of_one_size(u.copy, u.w_out)));
  }
  run_adamw(stream, updates);
}

}  // namespace troupe::tensor
