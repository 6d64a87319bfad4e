#include "tensor/cuda/attention/cudnn_document_attention.h"

#include <utility>

#include "tensor/cuda/attention/attention_choice.h"
#include "tensor/cuda/kernels/attention/document_groups.h"
#include "tensor/errors/error.h"

namespace troupe::tensor::cuda {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Bounds from those of a group to the next: each group's begin at an aligned address.
std::int64_t stride_of(const AttentionShape& shape) {
  constexpr std::int64_t kUnit = kAlignment / sizeof(std::int32_t);
  return (shape.batch + 1 + kUnit - 1) / kUnit * kUnit;
}

/// The groups of a call in `memory`, lengths first.
DocumentGroups groups_in(std::byte* memory, const AttentionShape& shape,
                         const AttentionCall& call) {
  DocumentGroups groups;
  groups.starts = call.documents.as<std::int32_t>();
  groups.documents = static_cast<int>(call.documents.num_elements() - 1);
  groups.group = static_cast<int>(shape.batch);
  groups.stride = static_cast<int>(stride_of(shape));
  const std::int64_t elements[] = {shape.columns(), shape.heads * shape.head_dim, shape.heads};
  const std::int64_t all = std::int64_t{groups.groups()} * groups.stride;
  groups.lengths = reinterpret_cast<std::int32_t*>(memory);
  auto* offsets = reinterpret_cast<std::int64_t*>(groups.lengths + all);
  for (int i = 0; i < 3; ++i, offsets += all) {
    groups.row_elements[i] = elements[i];
    groups.offsets[i] = offsets;
  }
  return groups;
}

}  // namespace

std::unique_ptr<CudnnDocumentAttention> CudnnDocumentAttention::make(const AttentionShape& shape,
                                                                     CudnnPlans& plans,
                                                                     KernelStream& preparation) {
  check(shape);
  TROUPE_ASSERT(shape.documents);
  CudnnPlans::Both both = plans.find(shape);
  if (!both.backward) return nullptr;
  return std::unique_ptr<CudnnDocumentAttention>(
      new CudnnDocumentAttention(shape, preparation, std::move(both)));
}

CudnnDocumentAttention::CudnnDocumentAttention(const AttentionShape& shape,
                                               KernelStream& preparation, CudnnPlans::Both plans)
    : shape_(shape), kernels_(shape, preparation), plans_(std::move(plans)) {}

bool CudnnDocumentAttention::serves(const AttentionCall& call) const {
  check(shape_, call);
  return call.dropout.p == 0 && call.documents.num_elements() - 1 <= most_documents(shape_);
}

std::size_t CudnnDocumentAttention::bounds_bytes() const {
  const std::int64_t groups = (most_documents(shape_) + shape_.batch - 1) / shape_.batch;
  return static_cast<std::size_t>(groups * stride_of(shape_)) *
         (sizeof(std::int32_t) + 3 * sizeof(std::int64_t));
}

ScratchBytes CudnnDocumentAttention::scratch_bytes() const {
  const ScratchBytes own = kernels_.scratch_bytes();
  return {.forward = aligned(own.forward) + bounds_bytes() + plans_.forward->workspace_bytes(),
          .backward = aligned(own.backward) + bounds_bytes() + plans_.backward->workspace_bytes()};
}

/// Behind the `own` bytes of our kernels.
CudnnDocumentAttention::Memory CudnnDocumentAttention::memory_in(void* scratch,
                                                                 std::size_t own) const {
  if (!scratch) return {};
  auto* const bounds = static_cast<std::byte*>(scratch) + aligned(own);
  return {.bounds = bounds, .workspace = bounds + bounds_bytes()};
}

void CudnnDocumentAttention::set_scratch(const Scratch& scratch) {
  kernels_.set_scratch(scratch);
  const ScratchBytes own = kernels_.scratch_bytes();
  forward_ = memory_in(scratch.forward, own.forward);
  backward_ = memory_in(scratch.backward, own.backward);
}

void CudnnDocumentAttention::forward(Stream& stream, const Tensor& qkv, const Tensor& saved,
                                     const Tensor& lse, const Tensor& out,
                                     const AttentionCall& call) {
  if (!serves(call)) return kernels_.forward(stream, qkv, saved, lse, out, call);
  kernels_.save(stream, qkv, saved, call, KernelAttention::Order::by_token);
  // A tile that ends behind the last document has weights of 0 there, times what it finds.
  kernels_.clear_padding(stream, saved, shape_.heads + 2 * shape_.kv_heads, call);
  recompute(stream, saved, lse, out, call);
}

void CudnnDocumentAttention::recompute(Stream& stream, const Tensor& saved, const Tensor& lse,
                                       const Tensor& out, const AttentionCall& call) {
  if (!serves(call)) return kernels_.recompute(stream, saved, lse, out, call);
  run(*plans_.forward, stream, addresses(saved, lse, out), forward_, call);
  kernels_.clear_padding(stream, out, shape_.heads, call);
}

void CudnnDocumentAttention::backward(Stream& stream, const Tensor& saved, const Tensor& lse,
                                      const Tensor& out, const Tensor& dout, const Tensor& dqkv,
                                      const AttentionCall& call) {
  if (!serves(call)) return kernels_.backward(stream, saved, lse, out, dout, dqkv, call);
  AttentionAddresses at = addresses(saved, lse, out);
  TROUPE_ASSERT(dout.dtype == shape_.dtype && dout.num_elements() == out.num_elements());
  at.dout = dout.data;
  at.dqkv = dqkv.data;
  run(*plans_.backward, stream, at, backward_, call);
  kernels_.clear_padding(stream, dqkv, shape_.heads + 2 * shape_.kv_heads, call);
  kernels_.rotate_back(stream, dqkv, call);
}

AttentionAddresses CudnnDocumentAttention::addresses(const Tensor& saved, const Tensor& lse,
                                                     const Tensor& out) const {
  const std::int64_t D = shape_.head_dim, rows = rows_of(shape_, out, shape_.heads * D);
  TROUPE_ASSERT(saved.dtype == shape_.dtype && saved.num_elements() == saved_elements());
  TROUPE_ASSERT(lse.dtype == DType::f32 && lse.num_elements() == rows * shape_.heads);
  // A head size that is a multiple of 8 leaves no gaps between the heads of `saved`.
  auto* const q = saved.as<BFloat16>();
  AttentionAddresses at;
  at.q = q;
  at.k = q + shape_.heads * D;
  at.v = q + (shape_.heads + shape_.kv_heads) * D;
  at.out = out.data;
  at.lse = lse.data;
  return at;
}

void CudnnDocumentAttention::run(CudnnPlan& plan, Stream& stream, AttentionAddresses at,
                                 const Memory& memory, const AttentionCall& call) const {
  const DocumentGroups groups = groups_in(memory.bounds, shape_, call);
  launch_document_groups(groups, handle_of(stream));
  for (std::int64_t group = 0; group < groups.groups(); ++group) {
    const std::int64_t first = group * groups.stride;
    at.documents = {.lengths = groups.lengths + first,
                    .qkv_offsets = groups.offsets[0] + first,
                    .out_offsets = groups.offsets[1] + first,
                    .lse_offsets = groups.offsets[2] + first};
    plan.run(handle_of(stream), at, memory.workspace);
  }
}

}  // namespace troupe::tensor::cuda
