#pragma once

#include <memory>

#include "tensor/cuda/attention/cudnn_plans.h"
#include "tensor/cuda/attention/kernel_attention.h"

namespace troupe::tensor::cuda {

/// Attention of documents by the ragged form of cuDNN's kernels, whose sequences begin at offsets
/// and have lengths that the GPU reads. The plans are for B documents of up to S tokens, B and S
/// those of the shape: a call runs them for B documents at a time. A plan for all documents that a
/// call may have would need, for a deterministic backward on 9.0, memory for S x S numbers of each;
/// this one works in that of B sequences, and no plan depends on how many documents there are.
///
/// Calls with dropout, whose choice of elements cuDNN does not know, and with more documents than
/// most_documents() are our own kernels'. Which way a call goes follows from itself alone, so its
/// forward, recomputation and backward go the same, and what `saved` and `lse` hold is that way's:
/// for cuDNN rows by token, [T, H + 2K, D] and [T, H].
class CudnnDocumentAttention final : public Attention {
 public:
  /// Null if there are no plans for the shape; the caller then takes KernelAttention. Throws
  /// Error{manifest} for a shape that has no meaning. For `preparation` see KernelAttention.
  static std::unique_ptr<CudnnDocumentAttention> make(const AttentionShape& shape,
                                                      CudnnPlans& plans, KernelStream& preparation);

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
  /// What the calls of one direction work in: the bounds of their documents, and cuDNN's workspace.
  struct Memory {
    std::byte* bounds = nullptr;
    std::byte* workspace = nullptr;
  };

  CudnnDocumentAttention(const AttentionShape& shape, KernelStream& preparation,
                         CudnnPlans::Both plans);
  /// Whether cuDNN computes the call.
  bool serves(const AttentionCall& call) const;
  std::size_t bounds_bytes() const;
  Memory memory_in(void* scratch, std::size_t own) const;
  AttentionAddresses addresses(const Tensor& saved, const Tensor& lse, const Tensor& out) const;
  /// Runs the plan for all documents of the call.
  void run(CudnnPlan& plan, Stream& stream, AttentionAddresses at, const Memory& memory,
           const AttentionCall& call) const;

  const AttentionShape shape_;
  KernelAttention kernels_;
  const CudnnPlans::Both plans_;
  Memory forward_, backward_;
};

}  // namespace troupe::tensor::cuda
