#include "tensor/parallel/parallel_linear.h"

#include "tensor/errors/error.h"
#include "tensor/parallel/division.h"
#include "tensor/parallel/redistribution.h"

namespace troupe::tensor {
namespace {

LinearShape column_shard(LinearShape whole, const TensorParallel& parallel) {
  check_tokens(whole.rows, parallel);
  whole.out = even_part("outputs of a column-parallel layer", whole.out, parallel.size);
  return whole;
}

LinearShape row_shard(LinearShape whole, const TensorParallel& parallel) {
  check_tokens(whole.rows, parallel);
  whole.in = even_part("inputs of a row-parallel layer", whole.in, parallel.size);
  return whole;
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(Device& device, const LinearShape& whole,
                                           const TensorParallel& parallel,
                                           const ColumnParallelOptions& options)
    : ParallelLinear(device, column_shard(whole, parallel), parallel), options_(options) {}

std::int64_t ColumnParallelLinear::gathered_elements() const {
  return parallel_.splits_tokens() ? shape_.rows * shape_.in : 0;
}

std::unique_ptr<Work> ColumnParallelLinear::gather_input(Stream& stream, const Tensor& x,
                                                         const Tensor& x_full) {
  return parallel_.gather_tokens(&TensorParallelGroups::forward, stream, x, x_full);
}

std::unique_ptr<Work> ColumnParallelLinear::gather_input_again(Stream& stream, const Tensor& x,
                                                               const Tensor& x_full) {
  return parallel_.gather_tokens(&TensorParallelGroups::backward, stream, x, x_full);
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

std::unique_ptr<Work> ColumnParallelLinear::reduce_input_gradient(Stream& stream,
                                                                  const Tensor& dx_full,
                                                                  const Tensor& dx) {
  if (!options_.reduce_input_gradient) return nullptr;
  return parallel_.reduce(&TensorParallelGroups::backward, stream, dx_full, dx);
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

RowParallelLinear::RowParallelLinear(Device& device, const LinearShape& whole,
                                     const TensorParallel& parallel)
    : ParallelLinear(device, row_shard(whole, parallel), parallel) {}

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
  return parallel_.reduce(&TensorParallelGroups::forward, stream, y_partial, y);
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
  return parallel_.gather_tokens(&TensorParallelGroups::backward, stream, dy, dy_full);
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
  const bool fuses = parallel_.size == 1;
  product(stream, tensors.x, packed, tensors.y_partial, fuses ? tensors.residual : Tensor{});
  wait(reduce_output(stream, tensors.y_partial, tensors.y), stream);
  add_bias_and_residual(stream, tensors.bias, fuses ? Tensor{} : tensors.residual, tensors.y);
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
