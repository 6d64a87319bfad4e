#pragma once

#include <memory>

#include "tensor/cuda/attention/cudnn_plan.h"
#include "tensor/cuda/attention/kernel_attention.h"

namespace troupe::tensor::cuda {

/// Attention by cuDNN. Our own kernels rotate before and after, and do all the work of calls with
/// dropout, whose choice of elements cuDNN does not know; `saved` is theirs.
class CudnnAttention final : public Attention {
 public:
  /// Null if cuDNN is not there or does not serve the shape; the caller then takes KernelAttention.
  /// Throws Error{manifest} for a shape that has no meaning. Makes plans, which takes about two
  /// seconds. For `preparation` see KernelAttention.
  static std::unique_ptr<CudnnAttention> make(const AttentionShape& shape, bool deterministic,
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
  CudnnAttention(const AttentionShape& shape, KernelStream& preparation,
                 std::unique_ptr<CudnnPlan> forward, std::unique_ptr<CudnnPlan> backward);
  AttentionAddresses addresses(const Tensor& saved, const Tensor& lse, const Tensor& out) const;
  std::size_t tables_bytes() const;

  const AttentionShape shape_;
  KernelAttention kernels_;
  const std::unique_ptr<CudnnPlan> forward_;
  const std::unique_ptr<CudnnPlan> backward_;
  Scratch workspace_;
};

}  // namespace troupe::tensor::cuda
