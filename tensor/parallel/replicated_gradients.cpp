#include "tensor/parallel/replicated_gradients.h"

#include "tensor/error.h"
#include "tensor/ops.h"

namespace troupe::tensor {
namespace {

/// The place of this shard's part in a scratch memory of all different parts.
Tensor own_part(const TensorParallel& parallel, int copies, const Tensor& scratch,
                std::int64_t elements) {
  TROUPE_ASSERT(scratch.dtype == DType::f32);
  TROUPE_ASSERT(scratch.num_elements() == copies_scratch_elements(parallel, copies, elements));
  return {scratch.as<float>() + parallel.shard() / copies * elements, DType::f32, {elements}};
}

}  // namespace

bool has_partial_gradient(Replicated parameter, const TensorParallel& parallel) {
  return parameter == Replicated::head_norm ? parallel.size() > 1 : parallel.splits_tokens();
}

std::unique_ptr<Work> sum_replicated_gradients(Stream& stream, const TensorParallel& parallel,
                                               std::span<const Tensor> gradients) {
  if (parallel.size() == 1 || gradients.empty()) return nullptr;
  return parallel.group->all_reduce_many(stream, gradients, Reduction::sum);
}

std::int64_t copies_scratch_elements(const TensorParallel& parallel, int copies,
                                     std::int64_t elements) {
  return copies == 1 ? 0 : parallel.size() / copies * elements;
}

// A group of its own for every set of copies would take fewer bytes, but key-value heads are a
// small part of a model, and their gradients are summed once a step.
std::unique_ptr<Work> sum_copies(Stream& stream, const TensorParallel& parallel, int copies,
                                 const Tensor& gradient, const Tensor& scratch) {
  if (copies == 1) return nullptr;
  Ops& ops = stream.device().ops();
  ops.fill_zero(stream, scratch);
  ops.copy(stream, gradient, own_part(parallel, copies, scratch, gradient.num_elements()));
  return parallel.group->all_reduce(stream, scratch);
}

void take_copies(Stream& stream, const TensorParallel& parallel, int copies, const Tensor& scratch,
                 const Tensor& gradient) {
  if (copies == 1) return;
  stream.device().ops().copy(stream, own_part(parallel, copies, scratch, gradient.num_elements()),
                             gradient);
}

bool counts_in_norm(const TensorParallel& parallel, int copies) {
  return parallel.shard() % copies == 0;
}

}  // namespace troupe::tensor
