#include "tensor/cuda/attention/cudnn_attention.h"

#include <algorithm>
#include <utility>

#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

std::unique_ptr<CudnnAttention> CudnnAttention::make(const AttentionShape& shape, CudnnPlans& plans,
                                                     KernelStream& preparation) {
  check(shape);
  TROUPE_ASSERT(!shape.documents);
  CudnnPlans::Both both = plans.find(shape);
  if (!both.backward) return nullptr;
  return std::unique_ptr<CudnnAttention>(new CudnnAttention(shape, preparation, std::move(both)));
}

CudnnAttention::CudnnAttention(const AttentionShape& shape, KernelStream& preparation,
                               CudnnPlans::Both plans)
    : shape_(shape), kernels_(shape, preparation), plans_(std::move(plans)) {}

/// Of the tables that begin the forward scratch, rounded up so that the workspace is aligned.
std::size_t CudnnAttention::tables_bytes() const {
  return (kernels_.scratch_bytes().forward + kAlignment - 1) / kAlignment * kAlignment;
}

ScratchBytes CudnnAttention::scratch_bytes() const {
  return {
      .forward = tables_bytes() + plans_.forward->workspace_bytes(),
      .backward = std::max(kernels_.scratch_bytes().backward, plans_.backward->workspace_bytes())};
}

void CudnnAttention::set_scratch(const Scratch& scratch) {
  kernels_.set_scratch(scratch);
  workspace_ = {.forward = static_cast<std::byte*>(scratch.forward) + tables_bytes(),
                .backward = scratch.backward};
}

void CudnnAttention::forward(Stream& stream, const Tensor& qkv, const Tensor& saved,
                             const Tensor& lse, const Tensor& out, const AttentionCall& call) {
  kernels_.save(stream, qkv, saved, call);
  recompute(stream, saved, lse, out, call);
}

void CudnnAttention::recompute(Stream& stream, const Tensor& saved, const Tensor& lse,
                               const Tensor& out, const AttentionCall& call) {
  if (call.dropout.p > 0) return kernels_.recompute(stream, saved, lse, out, call);
  plans_.forward->run(handle_of(stream), addresses(saved, lse, out), workspace_.forward);
}

void CudnnAttention::backward(Stream& stream, const Tensor& saved, const Tensor& lse,
                              const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                              const AttentionCall& call) {
  if (call.dropout.p > 0) return kernels_.backward(stream, saved, lse, out, dout, dqkv, call);
  AttentionAddresses at = addresses(saved, lse, out);
  TROUPE_ASSERT(dout.dtype == shape_.dtype && dout.num_elements() == out.num_elements());
  at.dout = dout.data;
  at.dqkv = dqkv.data;
  plans_.backward->run(handle_of(stream), at, workspace_.backward);
  kernels_.rotate_back(stream, dqkv, call);
}

AttentionAddresses CudnnAttention::addresses(const Tensor& saved, const Tensor& lse,
                                             const Tensor& out) const {
  const std::int64_t tokens = shape_.batch * shape_.seq_len;
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(lse.dtype == DType::f32 && lse.num_elements() == tokens * shape_.heads);
  TROUPE_ASSERT(out.dtype == shape_.dtype &&
                out.num_elements() == tokens * shape_.heads * shape_.head_dim);
  // A head size that is a multiple of 8 leaves no gaps between the rows of `saved`.
  auto* const q = saved.as<BFloat16>();
  auto* const k = q + tokens * shape_.heads * shape_.head_dim;
  auto* const v = k + tokens * shape_.kv_heads * shape_.head_dim;
  return {.q = q, .k = k, .v = v, .out = out.data, .lse = lse.data};
}

}  // namespace troupe::tensor::cuda
