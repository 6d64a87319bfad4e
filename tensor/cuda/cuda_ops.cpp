#include "tensor/cuda/cuda_ops.h"

#include <algorithm>
#include <array>

#include "tensor/cuda/kernels/elements/elementwise_kernels.h"
#include "tensor/cuda/kernels/embedding/embedding_kernels.h"
#include "tensor/cuda/kernels/losses/loss_kernels.h"
#include "tensor/cuda/kernels/rows/head_norm_kernels.h"
#include "tensor/cuda/kernels/rows/norm_kernels.h"
#include "tensor/cuda/kernels/rows/reduction_kernels.h"
#include "tensor/cuda/runtime/kernel_stream.h"
#include "tensor/cuda/runtime/stream_memory.h"

namespace troupe::tensor::cuda {
namespace {

Lookup lookup_of(const Tensor& ids, std::int64_t first, const Tensor& table, const Tensor& x) {
  return {.dtype = x.dtype,
          .ids = ids.as<std::int32_t>(),
          .tokens = ids.num_elements(),
          .first = first,
          .rows = table.shape[0],
          .columns = table.shape[1]};
}

Positions positions_of(const Tensor& positions, std::int64_t first, const Tensor& x) {
  return {.dtype = x.dtype,
          .tokens = x.num_elements() / positions.shape[1],
          .first = first,
          .positions = positions.shape[0],
          .columns = positions.shape[1]};
}

NormForward norm_of(const Tensor& x, const Tensor& w, float eps, const Tensor& y,
                    const Tensor& rstd) {
  return {.dtype = x.dtype,
          .rows = rstd.num_elements(),
          .columns = w.num_elements(),
          .x = x.data,
          .w = w.as<float>(),
          .eps = eps,
          .y = y.data,
          .rstd = rstd.as<float>()};
}

NormBackward norm_backward_of(const Tensor& dy, const Tensor& x, const Tensor& w,
                              const Tensor& rstd, const Tensor& residual, const Tensor& dx,
                              const Tensor& dw) {
  return {.dtype = x.dtype,
          .rows = rstd.num_elements(),
          .columns = w.num_elements(),
          .dy = dy.data,
          .x = x.data,
          .w = w.as<float>(),
          .rstd = rstd.as<float>(),
          .residual = residual.data,
          .dx = dx.data,
          .dw = dw.as<float>()};
}

void queue_norm_backward(Stream& stream, const NormBackward& norm) {
  void* const scratch = kernel_stream(stream).scratch(norm_backward_scratch(norm));
  launch_norm_backward(norm, scratch, handle_of(stream));
}

NormedHeads normed_heads(const Tensor& x, const HeadColumns& heads, const Tensor& w, float eps,
                         float plus, const Tensor& squares, std::int64_t width) {
  return {.dtype = x.dtype,
          .tokens = x.shape[0],
          .stride = x.shape[1],
          .first = heads.first,
          .heads = heads.heads,
          .dim = heads.dim,
          .x = x.data,
          .w = w.as<float>(),
          .plus = plus,
          .eps = eps,
          .squares = squares.as<float>(),
          .width = squares ? width : heads.dim};
}

VocabShard shard_of(const Tensor& logits, const VocabColumns& columns) {
  return {.rows = logits.shape[0],
          .columns = logits.shape[1],
          .valid = columns.valid,
          .first_class = columns.first};
}

AdamWParameter parameter_of(const AdamWUpdate& u) {
  return {.factors = AdamWFactors(u.step),
          .count = u.gradient.num_elements(),
          .gradient = u.gradient.as<float>(),
          .w = u.w.as<float>(),
          .m = u.m.as<float>(),
          .v = u.v.as<float>(),
          .w_out = u.w_out.as<float>(),
          .m_out = u.m_out.as<float>(),
          .v_out = u.v_out.as<float>(),
          .copy = u.copy.data,
          .copy_dtype = u.copy.dtype};
}

/// Where each row's loss is written before all are added.
void* row_losses(Stream& stream, const Tensor& token_losses, std::int64_t rows) {
  if (token_losses) return token_losses.data;
  return kernel_stream(stream).scratch(loss_scratch(rows));
}

}  // namespace

void CudaOps::run_fill_zero(Stream& stream, const Tensor& x) {
  if (x.num_elements() == 0) return;
  queue_zeros(x.data, x.num_bytes(), handle_of(stream));
}

void CudaOps::run_copy(Stream& stream, const Tensor& src, const Tensor& dst) {
  if (src.num_elements() == 0) return;
  if (src.dtype == dst.dtype)
    return queue_copy(dst.data, src.data, src.num_bytes(), handle_of(stream));
  launch_convert(src.dtype, src.data, dst.data, src.num_elements(), handle_of(stream));
}

void CudaOps::run_accumulate(Stream& stream, const Tensor& x, const Tensor& y) {
  launch_accumulate(y.dtype, x.data, y.data, y.num_elements(), handle_of(stream));
}

void CudaOps::run_copy_columns(Stream& stream, const Tensor& src, std::int64_t from,
                               const Tensor& dst, std::int64_t to, std::int64_t count) {
  if (count == 0 || src.shape[0] == 0) return;
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements) * size_of(src.dtype);
  };
  queue_copy_rows(dst.as<std::byte>() + bytes(to), bytes(dst.shape[1]),
                  src.as<std::byte>() + bytes(from), bytes(src.shape[1]), bytes(count),
                  static_cast<std::size_t>(src.shape[0]), handle_of(stream));
}

void CudaOps::run_scale(Stream& stream, const Tensor& x, float factor, const Tensor& y) {
  launch_scale(x.dtype, x.data, factor, y.data, x.num_elements(), handle_of(stream));
}

void CudaOps::run_add_scaled(Stream& stream, const Tensor& x, float factor, const Tensor& residual,
                             const Tensor& y) {
  launch_add_scaled(x.dtype, x.data, factor, residual.data, y.data, x.num_elements(),
                    handle_of(stream));
}

void CudaOps::run_cap_logits(Stream& stream, const Tensor& x, float scale, float cap,
                             const Tensor& y) {
  if (cap == 0) return run_scale(stream, x, scale, y);
  launch_soft_cap(x.as<float>(), scale, cap, y.as<float>(), x.num_elements(), handle_of(stream));
}

void CudaOps::run_cap_logits_backward(Stream& stream, const Tensor& y, const Tensor& dy,
                                      float scale, float cap, const Tensor& dx) {
  if (cap == 0) return run_scale(stream, dy, scale, dx);
  launch_soft_cap_backward(dx.dtype, y.as<float>(), dy.data, scale, cap, dx.data, dx.num_elements(),
                           handle_of(stream));
}

void CudaOps::run_rms_norm(Stream& stream, const Tensor& x, const Tensor& w, float eps, float plus,
                           const Tensor& y, const Tensor& rstd) {
  NormForward norm = norm_of(x, w, eps, y, rstd);
  norm.plus = plus;
  launch_norm(norm, handle_of(stream));
}

void CudaOps::run_rms_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x,
                                    const Tensor& w, float plus, const Tensor& rstd,
                                    const Tensor& residual, const Tensor& dx, const Tensor& dw) {
  NormBackward norm = norm_backward_of(dy, x, w, rstd, residual, dx, dw);
  norm.plus = plus;
  queue_norm_backward(stream, norm);
}

void CudaOps::run_head_norm(Stream& stream, const Tensor& x, const HeadColumns& heads,
                            const Tensor& w, float eps, float plus, const Tensor& y,
                            const Tensor& squares, std::int64_t width) {
  launch_head_norm(normed_heads(x, heads, w, eps, plus, squares, width), y.data, handle_of(stream));
}

void CudaOps::run_head_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x,
                                     const HeadColumns& heads, const Tensor& w, float eps,
                                     float plus, const Tensor& dx, const Tensor& dw,
                                     const Tensor& squares, const Tensor& dots,
                                     std::int64_t width) {
  const HeadNormBackward norm{.heads = normed_heads(x, heads, w, eps, plus, squares, width),
                              .dy = dy.data,
                              .dots = dots.as<float>(),
                              .dx = dx.data,
                              .dw = dw.as<float>()};
  void* const scratch = kernel_stream(stream).scratch(head_norm_backward_scratch(norm));
  launch_head_norm_backward(norm, scratch, handle_of(stream));
}

void CudaOps::run_head_squares(Stream& stream, const Tensor& x, const HeadColumns& columns,
                               const Tensor& squares) {
  launch_head_sums(normed_heads(x, columns, {}, 0, 0, {}, 0), nullptr, squares.as<float>(),
                   handle_of(stream));
}

void CudaOps::run_head_dots(Stream& stream, const Tensor& dy, const Tensor& x,
                            const HeadColumns& columns, const Tensor& w, float plus,
                            const Tensor& dots) {
  launch_head_sums(normed_heads(x, columns, w, 0, plus, {}, 0), dy.data, dots.as<float>(),
                   handle_of(stream));
}

void CudaOps::run_layer_norm(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& b,
                             float eps, const Tensor& y, const Tensor& mean, const Tensor& rstd) {
  NormForward norm = norm_of(x, w, eps, y, rstd);
  norm.b = b.as<float>();
  norm.mean = mean.as<float>();
  launch_norm(norm, handle_of(stream));
}

void CudaOps::run_layer_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x,
                                      const Tensor& w, const Tensor& mean, const Tensor& rstd,
                                      const Tensor& residual, const Tensor& dx, const Tensor& dw,
                                      const Tensor& db) {
  NormBackward norm = norm_backward_of(dy, x, w, rstd, residual, dx, dw);
  norm.mean = mean.as<float>();
  norm.db = db.as<float>();
  queue_norm_backward(stream, norm);
}

void CudaOps::run_swiglu(Stream& stream, const Tensor& gate_up, const Tensor& y) {
  launch_swiglu(y.dtype, gate_up.data, y.data, y.shape[0], y.shape[1], handle_of(stream));
}

void CudaOps::run_swiglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& dy,
                                  const Tensor& dgate_up) {
  launch_swiglu_backward(dy.dtype, gate_up.data, dy.data, dgate_up.data, dy.shape[0], dy.shape[1],
                         handle_of(stream));
}

void CudaOps::run_geglu(Stream& stream, const Tensor& gate_up, const Tensor& y) {
  launch_geglu(y.dtype, gate_up.data, y.data, y.shape[0], y.shape[1], handle_of(stream));
}

void CudaOps::run_geglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& dy,
                                 const Tensor& dgate_up) {
  launch_geglu_backward(dy.dtype, gate_up.data, dy.data, dgate_up.data, dy.shape[0], dy.shape[1],
                        handle_of(stream));
}

void CudaOps::run_gelu(Stream& stream, const Tensor& x, const Tensor& y) {
  launch_gelu(x.dtype, x.data, y.data, x.num_elements(), handle_of(stream));
}

void CudaOps::run_gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy,
                                const Tensor& dx) {
  launch_gelu_backward(x.dtype, x.data, dy.data, dx.data, x.num_elements(), handle_of(stream));
}

void CudaOps::run_add_bias(Stream& stream, const Tensor& b, const Tensor& y,
                           const Tensor& residual) {
  launch_add_bias(y.dtype, b.as<float>(), residual.data, y.data, y.shape[0], y.shape[1],
                  handle_of(stream));
}

void CudaOps::run_bias_gradient(Stream& stream, const Tensor& dy, const Tensor& db,
                                Gradient gradient) {
  const std::int64_t columns = db.num_elements();
  const ColumnTerms terms{
      .dtype = dy.dtype, .rows = dy.num_elements() / columns, .columns = columns, .dy = dy.data};
  launch_column_sums(terms, {.first = db.as<float>(), .add = gradient == Gradient::added},
                     kernel_stream(stream).scratch(column_sums_scratch(terms)), handle_of(stream));
}

void CudaOps::run_dropout(Stream& stream, const Dropout& dropout, const MatrixSlice& slice,
                          const Tensor& x, const Tensor& y, const Tensor& residual) {
  launch_dropout(x.dtype, dropout, slice, x.data, residual.data, y.data, x.shape[0], x.shape[1],
                 handle_of(stream));
}

void CudaOps::run_embedding_range(Stream& stream, const Tensor& ids, std::int64_t first,
                                  const Tensor& table, const Tensor& x) {
  launch_embedding(lookup_of(ids, first, table, x), table.as<float>(), x.data, handle_of(stream));
}

void CudaOps::run_embedding_range_backward(Stream& stream, const Tensor& ids, std::int64_t first,
                                           const Tensor& dx, const Tensor& dtable) {
  const Lookup lookup = lookup_of(ids, first, dtable, dx);
  launch_embedding_backward(lookup, dx.data, dtable.as<float>(),
                            kernel_stream(stream).scratch(embedding_backward_scratch(lookup)),
                            handle_of(stream));
}

void CudaOps::run_add_rows(Stream& stream, const Tensor& table, const Tensor& rows,
                           const Tensor& x) {
  launch_add_rows(lookup_of(rows, 0, table, x), table.as<float>(), x.data, handle_of(stream));
}

void CudaOps::run_add_positions(Stream& stream, const Tensor& positions, std::int64_t first,
                                const Tensor& x) {
  launch_add_positions(positions_of(positions, first, x), positions.as<float>(), x.data,
                       handle_of(stream));
}

void CudaOps::run_positions_backward(Stream& stream, const Tensor& dx, std::int64_t first,
                                     const Tensor& dpositions) {
  launch_positions_backward(positions_of(dpositions, first, dx), dx.data, dpositions.as<float>(),
                            handle_of(stream));
}

void CudaOps::run_cross_entropy(Stream& stream, const Tensor& logits, const Tensor& targets,
                                float scale, const Tensor& loss, const Tensor& dlogits,
                                const Tensor& token_losses) {
  launch_cross_entropy({.rows = logits.shape[0],
                        .columns = logits.shape[1],
                        .logits = logits.as<float>(),
                        .targets = targets.as<std::int32_t>(),
                        .ignored = kNoTarget,
                        .scale = scale,
                        .dlogits = dlogits.data,
                        .gradient_dtype = dlogits.dtype},
                       loss.as<double>(), row_losses(stream, token_losses, logits.shape[0]),
                       handle_of(stream));
}

void CudaOps::run_vocab_max(Stream& stream, const Tensor& logits, std::int64_t valid,
                            const Tensor& max) {
  launch_vocab_max(shard_of(logits, {.valid = valid}), logits.as<float>(), max.as<float>(),
                   handle_of(stream));
}

void CudaOps::run_vocab_sums(Stream& stream, const Tensor& logits, const VocabColumns& columns,
                             const Tensor& targets, const Tensor& max, const Tensor& sums) {
  launch_vocab_sums(shard_of(logits, columns), logits.as<float>(), targets.as<std::int32_t>(),
                    max.as<float>(), sums.shape[0] == 3, sums.as<float>(), handle_of(stream));
}

void CudaOps::run_vocab_loss(Stream& stream, const Tensor& exponentials,
                             const VocabColumns& columns, const Tensor& targets, const Tensor& sums,
                             const VocabLoss& loss, const Tensor& sum, const Tensor& dlogits,
                             const Tensor& token_losses) {
  launch_vocab_loss({.shard = shard_of(exponentials, columns),
                     .exponentials = exponentials.as<float>(),
                     .targets = targets.as<std::int32_t>(),
                     .sums = sums.as<float>(),
                     .classes = loss.classes,
                     .smoothing = loss.smoothing,
                     .ignored = loss.ignored,
                     .scale = loss.scale,
                     .dlogits = dlogits.data,
                     .gradient_dtype = dlogits.dtype},
                    sum.as<double>(), row_losses(stream, token_losses, exponentials.shape[0]),
                    handle_of(stream));
}

void CudaOps::run_sum_losses(Stream& stream, const Tensor& token_losses, const Tensor& sum) {
  launch_sum(token_losses.as<double>(), token_losses.num_elements(), sum.as<double>(),
             handle_of(stream));
}

void CudaOps::run_sums_of_squares(Stream& stream, const Tensor& x, std::int64_t piece,
                                  const Tensor& sums) {
  launch_sums_of_squares(x.as<float>(), x.num_elements(), piece, sums.as<double>(),
                         handle_of(stream));
}

void CudaOps::run_adamw(Stream& stream, std::span<const AdamWUpdate> updates) {
  for (; !updates.empty(); updates = updates.subspan(std::min(updates.size(), kAdamWParameters))) {
    const auto together = updates.first(std::min(updates.size(), kAdamWParameters));
    std::array<AdamWParameter, kAdamWParameters> parameters;
    std::ranges::transform(together, parameters.begin(), parameter_of);
    launch_adamw(std::span(parameters).first(together.size()), handle_of(stream));
  }
}

}  // namespace troupe::tensor::cuda
