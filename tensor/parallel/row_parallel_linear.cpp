#include "tensor/parallel/row_parallel_linear.h"

#include "tensor/error.h"
#include "tensor/parallel/even_split.h"
#include "tensor/parallel/redistribution.h"

namespace troupe::tensor {
namespace {

LinearShape shard_of(LinearShape whole, const TensorParallel& parallel) {
  if (parallel.splits_tokens()) even_part("tokens of a microbatch", whole.rows, parallel.size);
  whole.in = even_part("inputs of a row-parallel layer", whole.in, parallel.size);
  return whole;
}

}  // namespace

RowParallelLinear::RowParallelLinear(Device& device, const LinearShape& whole,
                                     const TensorParallel& parallel)
    : parallel_(parallel),
      ops_(device.ops()),
      shape_(shard_of(whole, parallel)),
      linear_(device.make_linear(shape_)) {}

std::int64_t RowParallelLinear::gathered_elements() const {
  return parallel_.splits_tokens() ? shape_.rows * shape_.out : 0;
}

Tensor RowParallelLinear::scatter_input(Stream& stream, const Tensor& input,
                                        const Tensor& x) const {
  if (parallel_.size == 1) return input;
  return own_columns(stream, *parallel_.groups->forward, input, x);
}

void RowParallelLinear::product(Stream& stream, const Tensor& x, const void* packed,
                                const Tensor& y_partial, const Tensor& residual) {
  TROUPE_ASSERT(!residual || parallel_.size == 1);
  linear_->forward(stream, x, packed, y_partial, residual);
}

std::unique_ptr<Work> RowParallelLinear::reduce_output(Stream& stream, const Tensor& y_partial,
                                                       const Tensor& y) {
  if (parallel_.size == 1) return nullptr;
  if (parallel_.splits_tokens())
    return parallel_.groups->forward->reduce_scatter(stream, y_partial, y);
  TROUPE_ASSERT(y.data == y_partial.data);
  return parallel_.groups->forward->all_reduce(stream, y);
}

void RowParallelLinear::add_bias_and_residual(Stream& stream, const Tensor& bias,
                                              const Tensor& residual, const Tensor& y) {
  if (bias) {
    ops_.add_bias(stream, bias, y, residual);
  } else if (residual) {
    ops_.accumulate(stream, residual, y);
  }
}

std::unique_ptr<Work> RowParallelLinear::gather_output_gradient(Stream& stream, const Tensor& dy,
                                                                const Tensor& dy_full) {
  if (!parallel_.splits_tokens()) return nullptr;
  return parallel_.groups->backward->all_gather(stream, dy, dy_full);
}

void RowParallelLinear::input_gradient(Stream& stream, const Tensor& dy_full, const void* packed,
                                       const Tensor& dx) {
  linear_->input_gradient(stream, dy_full, packed, dx);
}

void RowParallelLinear::weight_gradient(Stream& stream, const Tensor& dy_full, const Tensor& x,
                                        const Tensor& dw, Gradient gradient) {
  linear_->weight_gradient(stream, dy_full, x, dw, gradient);
}

void RowParallelLinear::bias_gradient(Stream& stream, const Tensor& dy, const Tensor& db,
                                      Gradient gradient) {
  ops_.bias_gradient(stream, dy, db, gradient);
}

void RowParallelLinear::forward(Stream& stream, const void* packed, const RowForward& tensors) {
  product(stream, tensors.x, packed, tensors.y_partial);
  wait(reduce_output(stream, tensors.y_partial, tensors.y), stream);
  add_bias_and_residual(stream, tensors.bias, tensors.residual, tensors.y);
}

void RowParallelLinear::backward(Stream& stream, const void* packed, const RowBackward& tensors) {
  const auto gathered = gather_output_gradient(stream, tensors.dy, tensors.dy_full);
  if (tensors.db) bias_gradient(stream, tensors.dy, tensors.db, tensors.gradient);
  wait(gathered, stream);
  input_gradient(stream, tensors.dy_full, packed, tensors.dx);
  if (tensors.dw) {
    weight_gradient(stream, tensors.dy_full, tensors.x, tensors.dw, tensors.gradient);
  }
}

}  // namespace troupe::tensor
