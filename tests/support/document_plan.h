#pragma once

#include "tensor/cuda/attention/cudnn_plan.h"
#include "tests/support/reference_ops.h"

namespace troupe::test {

/// A plan for documents that computes on the host, in the order of a stream of the emulated grid,
/// what cuDNN's plan does. It takes lengths and offsets as they are, fills its workspace with NaNs,
/// and refuses by emulated_grid::Fault what would give a wrong result without a word: numbers that
/// are not aligned, a document longer than the shape allows, NaNs in the rest of a tile behind a
/// document, which are multiplied by 0, and a backward with another call's results.
class DocumentPlan final : public tensor::cuda::CudnnPlan {
 public:
  /// `runs`, which outlives the plan, counts its runs.
  DocumentPlan(const tensor::AttentionShape& shape, tensor::cuda::AttentionPass pass, int& runs)
      : shape_(shape), pass_(pass), runs_(runs) {}

  std::size_t workspace_bytes() const override { return 1000; }
  void run(cudaStream_t stream, const tensor::cuda::AttentionAddresses& at,
           void* workspace) override;

 private:
  using Addresses = tensor::cuda::AttentionAddresses;

  void compute(const Addresses& at) const;
  void compute_document(const Addresses& at, std::int64_t document, std::int64_t length) const;
  /// Rows of a document, columns of q, k and v as qkv has them.
  reference::Values read_heads(const Addresses& at, std::int64_t first, std::int64_t rows) const;
  void check_results(const reference::AttentionResult& expected, const reference::Values& out,
                     const float* lse, std::int64_t length) const;

  const tensor::AttentionShape shape_;
  const tensor::cuda::AttentionPass pass_;
  int& runs_;
};

}  // namespace troupe::test
