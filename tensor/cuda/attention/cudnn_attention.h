#pragma once

#include <memory>

#include "tensor/cuda/attention/cudnn_plans.h"
#include "tensor/cuda/attention/kernel_attention.h"

namespace troupe::tensor::cuda {

/// Attention of whole sequences by cuDNN. Our own kernels rotate before and after, and do all the
/// work of calls with dropout, whose choice of elements cuDNN does not know; `saved` is theirs.
class CudnnAttention final : public Attention {
 public:
  /// Null if there are no plans for the shape; the caller then takes KernelAttention. Throws
  /// Error{manifest} for a shape that has no meaning. For `preparation` see KernelAttention.
  static std::unique_ptr<CudnnAttention> make(const AttentionShape& shape, CudnnPlans& plans,
                                              KernelStream& preparation);

  std::int64_t saved_elements() const override { return kernels_.saved_elements(); }
  ScratchBytes scratch_bytes() const override;
  void set_scratch(const Scratch& scratch) override;
  void forward(Stream& stream, const Tensor& qkv, const Tensor& saved, const Tensor& lse,
               const Tensor& out, const AttentionCall& call) override;
  void recompute(Stream& stream, const Tensor& saved, const Tensor& lse, const Tensor& out,
                 const AttentionCall& call) override;
  void backward(Stream& stream, const Tensor& saved, const Tensor& lse, const Tensor& out,
                const Tensor& dout, const Tensor& dqkv, const AttentionCall& call) override;

 private:
  CudnnAttention(const AttentionShape& shape, KernelStream& preparation, CudnnPlans::Both plans);
  AttentionAddresses addresses(const Tensor& saved, const Tensor& lse, const Tensor& out) const;
  std::size_t tables_bytes() const;

  const AttentionShape shape_;
  KernelAttention kernels_;
  const CudnnPlans::Both plans_;
  Scratch workspace_;
};

}  // namespace troupe::tensor::cuda
