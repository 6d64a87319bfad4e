#pragma once

#include <cstddef>

#include "tensor/device.h"
#include "tensor/ops.h"

namespace troupe::tensor {

/// The ops on the host: Highway kernels on contiguous ranges of rows or elements, one range per
/// OpenMP thread. The methods of one family are in one file, beside their kernels.
class CpuOps final : public Ops {
 public:
  CpuOps(Device& device, int threads) : device_(device), threads_(threads) {}

  void fill_zero(Stream& stream, const Tensor& x) override;
  void copy(Stream& stream, const Tensor& src, const Tensor& dst) override;
  void accumulate(Stream& stream, const Tensor& x, const Tensor& y) override;
  void copy_columns(Stream& stream, const Tensor& src, std::int64_t from, const Tensor& dst,
                    std::int64_t to, std::int64_t count) override;
  void rms_norm(Stream& stream, const Tensor& x, const Tensor& w, float eps, const Tensor& y,
                const Tensor& rstd) override;
  void rms_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                         const Tensor& rstd, const Tensor& residual, const Tensor& dx,
                         const Tensor& dw) override;
  void layer_norm(Stream& stream, const Tensor& x, const Tensor& w, const Tensor& b, float eps,
                  const Tensor& y, const Tensor& mean, const Tensor& rstd) override;
  void layer_norm_backward(Stream& stream, const Tensor& dy, const Tensor& x, const Tensor& w,
                           const Tensor& mean, const Tensor& rstd, const Tensor& residual,
                           const Tensor& dx, const Tensor& dw, const Tensor& db) override;
  void swiglu(Stream& stream, const Tensor& gate_up, const Tensor& y) override;
  void swiglu_backward(Stream& stream, const Tensor& gate_up, const Tensor& dy,
                       const Tensor& dgate_up) override;
  void gelu(Stream& stream, const Tensor& x, const Tensor& y) override;
  void gelu_backward(Stream& stream, const Tensor& x, const Tensor& dy, const Tensor& dx) override;
  void add_bias(Stream& stream, const Tensor& b, const Tensor& y, const Tensor& residual) override;
  void bias_gradient(Stream& stream, const Tensor& dy, const Tensor& db,
                     Gradient gradient) override;
  void dropout(Stream& stream, const Dropout& dropout, const MatrixSlice& slice, const Tensor& x,
               const Tensor& y, const Tensor& residual) override;
  void embedding(Stream& stream, const Tensor& ids, const Tensor& table, const Tensor& x) override;
  void embedding_backward(Stream& stream, const Tensor& ids, const Tensor& dx,
                          const Tensor& dtable) override;
  void add_positions(Stream& stream, const Tensor& positions, std::int64_t first,
                     const Tensor& x) override;
  void positions_backward(Stream& stream, const Tensor& dx, std::int64_t first,
                          const Tensor& dpositions) override;
  void add_rows(Stream& stream, const Tensor& table, const Tensor& rows, const Tensor& x) override;
  void embedding_range(Stream& stream, const Tensor& ids, std::int64_t first, const Tensor& table,
                       const Tensor& x) override;
  void embedding_range_backward(Stream& stream, const Tensor& ids, std::int64_t first,
                                const Tensor& dx, const Tensor& dtable) override;
  void cross_entropy(Stream& stream, const Tensor& logits, const Tensor& targets, float scale,
                     const Tensor& loss, const Tensor& dlogits,
                     const Tensor& token_losses) override;
  void vocab_max(Stream& stream, const Tensor& logits, std::int64_t valid,
                 const Tensor& max) override;
  void vocab_sums(Stream& stream, const Tensor& logits, const VocabColumns& columns,
                  const Tensor& targets, const Tensor& max, const Tensor& sums) override;
  void vocab_loss(Stream& stream, const Tensor& exponentials, const VocabColumns& columns,
                  const Tensor& targets, const Tensor& sums, const VocabLoss& loss,
                  const Tensor& sum, const Tensor& dlogits, const Tensor& token_losses) override;
  void sums_of_squares(Stream& stream, const Tensor& x, std::int64_t piece,
                       const Tensor& sums) override;
  void adamw(Stream& stream, const AdamWStep& step, const Tensor& gradient, const Tensor& w,
             const Tensor& m, const Tensor& v, const Tensor& w_out, const Tensor& m_out,
             const Tensor& v_out, const Tensor& copy) override;

 private:
  /// Memory for `elements` float32 of arbitrary content; it grows with the largest request.
  float* scratch(std::int64_t elements);

  Device& device_;
  const int threads_;
  Buffer scratch_;
};

}  // namespace troupe::tensor
