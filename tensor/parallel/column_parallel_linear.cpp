#include "tensor/parallel/column_parallel_linear.h"

#include "tensor/error.h"
#include "tensor/parallel/even_split.h"
#include "tensor/parallel/redistribution.h"

namespace troupe::tensor {
namespace {

LinearShape shard_of(LinearShape whole, const TensorParallel& parallel) {
  if (parallel.splits_tokens()) even_part("tokens of a microbatch", whole.rows, parallel.size);
  whole.out = even_part("outputs of a column-parallel layer", whole.out, parallel.size);
  return whole;
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(Device& device, const LinearShape& whole,
                                           const TensorParallel& parallel,
                                           const ColumnParallelOptions& options)
    : parallel_(parallel),
      options_(options),
      ops_(device.ops()),
      shape_(shard_of(whole, parallel)),
      linear_(device.make_linear(shape_)) {}

std::int64_t ColumnParallelLinear::gathered_elements() const {
  return parallel_.splits_tokens() ? shape_.rows * shape_.in : 0;
}

std::unique_ptr<Work> ColumnParallelLinear::gather_input(Stream& stream, const Tensor& x,
                                                         const Tensor& x_full) {
  if (!parallel_.splits_tokens()) return nullptr;
  return parallel_.groups->forward->all_gather(stream, x, x_full);
}

std::unique_ptr<Work> ColumnParallelLinear::gather_input_again(Stream& stream, const Tensor& x,
                                                               const Tensor& x_full) {
  if (!parallel_.splits_tokens()) return nullptr;
  return parallel_.groups->backward->all_gather(stream, x, x_full);
}

void ColumnParallelLinear::product(Stream& stream, const Tensor& x_full, const void* packed,
                                   const Tensor& bias, const Tensor& y) {
  linear_->forward(stream, x_full, packed, y);
  if (bias) ops_.add_bias(stream, bias, y);
}

Tensor ColumnParallelLinear::gather_output(Stream& stream, const Tensor& y, const Tensor& scratch,
                                           const Tensor& y_full) const {
  if (parallel_.size == 1) return y;
  return gather_columns(stream, *parallel_.groups->forward, y, scratch, y_full);
}

void ColumnParallelLinear::input_gradient(Stream& stream, const Tensor& dy, const void* packed,
                                          const Tensor& dx_full) {
  linear_->input_gradient(stream, dy, packed, dx_full);
}

std::unique_ptr<Work> ColumnParallelLinear::reduce_input_gradient(Stream& stream,
                                                                  const Tensor& dx_full,
                                                                  const Tensor& dx) {
  if (parallel_.size == 1 || !options_.reduce_input_gradient) return nullptr;
  if (parallel_.splits_tokens())
    return parallel_.groups->backward->reduce_scatter(stream, dx_full, dx);
  TROUPE_ASSERT(dx.data == dx_full.data);
  return parallel_.groups->backward->all_reduce(stream, dx);
}

void ColumnParallelLinear::weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x_full,
                                           const Tensor& dw, const Tensor& db, Gradient gradient) {
  if (dw) linear_->weight_gradient(stream, dy, x_full, dw, gradient);
  if (db) ops_.bias_gradient(stream, dy, db, gradient);
}

void ColumnParallelLinear::forward(Stream& stream, const Tensor& x, const Tensor& x_full,
                                   const void* packed, const Tensor& bias, const Tensor& y) {
  wait(gather_input(stream, x, x_full), stream);
  product(stream, x_full, packed, bias, y);
}

void ColumnParallelLinear::backward(Stream& stream, const void* packed,
                                    const ColumnBackward& tensors) {
  const auto gathered =
      tensors.dw ? gather_input_again(stream, tensors.x, tensors.x_full) : std::unique_ptr<Work>();
  input_gradient(stream, tensors.dy, packed, tensors.dx_full);
  wait(gathered, stream);
  const auto reduced = reduce_input_gradient(stream, tensors.dx_full, tensors.dx);
  weight_gradient(stream, tensors.dy, tensors.x_full, tensors.dw, tensors.db, tensors.gradient);
  wait(reduced, stream);
}

}  // namespace troupe::tensor
