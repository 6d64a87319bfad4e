#pragma once

#include <cstddef>
#include <memory>

#include "tensor/linear.h"
#include "tensor/ops.h"
#include "tensor/parallel/tensor_parallel.h"

namespace troupe::tensor {

struct ColumnParallelOptions {
  /// False: dx_full stays this shard's part of a sum that the caller forms, as for the two factors
  /// of a low-rank adapter, which share one reduction.
  bool reduce_input_gradient = true;
};

/// Tensors of a whole backward of a ColumnParallelLinear; the shapes are those of its parts.
/// Without sequence parallelism x_full is x, and dx is dx_full.
struct ColumnBackward {
  Tensor dy;
  Tensor x, x_full;    // empty if dw is
  Tensor dx_full, dx;  // dx is empty if the layer does not reduce it
  Tensor dw;           // empty: the weight is frozen
  Tensor db;           // empty: no bias, or a frozen one
  Gradient gradient = Gradient::first;
};

/// A linear layer y = x w^T + b whose outputs are divided: shard r of n holds rows r*O/n ... of
/// w[O, I] and of b[O], and computes these columns of y[T, O]. One object serves every layer of
/// that shape, and all memory is the caller's, as for Linear; what may run at the same time is the
/// same too. The collectives stand apart from the products, so that a caller can run them while it
/// computes something else; forward() and backward() run all parts in Megatron's order.
class ColumnParallelLinear {
 public:
  /// whole: the layer before it is divided; rows = T, all tokens of a microbatch. Device and groups
  /// outlive the layer. Throws Error{manifest} if the shards do not divide O, or, with sequence
  /// parallelism, T.
  ColumnParallelLinear(Device& device, const LinearShape& whole, const TensorParallel& parallel,
                       const ColumnParallelOptions& options = {});

  /// The shape of this shard's products: T rows, I inputs, O/n outputs.
  const LinearShape& shard_shape() const { return shape_; }
  /// Elements that x_full and dx_full need each: T*I with sequence parallelism; 0 without, because
  /// they are x and dx then.
  std::int64_t gathered_elements() const;
  /// Packing and scratch memory as Linear has them, for a weight w[O/n, I].
  std::size_t packed_bytes() const { return linear_->packed_bytes(); }
  ScratchBytes scratch_bytes() const { return linear_->scratch_bytes(); }
  void set_scratch(const Scratch& scratch) { linear_->set_scratch(scratch); }
  void pack(Stream& stream, const Tensor& w, void* packed) { linear_->pack(stream, w, packed); }
  Tensor packed_copy(void* packed) const { return linear_->packed_copy(packed); }

  /// With sequence parallelism gathers the tokens of x[T/n, I] into x_full[T, I]; else null.
  std::unique_ptr<Work> gather_input(Stream& stream, const Tensor& x, const Tensor& x_full);
  /// Gathers the input once more in a backward, for the weight gradient.
  std::unique_ptr<Work> gather_input_again(Stream& stream, const Tensor& x, const Tensor& x_full);
  /// y[T, O/n] = x_full w^T + bias[O/n] (float32; none if empty).
  void product(Stream& stream, const Tensor& x_full, const void* packed, const Tensor& bias,
               const Tensor& y);
  /// Makes y whole on every shard, for what all shards compute alike: gather_columns(), whose
  /// gradient is own_columns(). Most layers leave y divided for a row-parallel layer.
  Tensor gather_output(Stream& stream, const Tensor& y, const Tensor& scratch,
                       const Tensor& y_full) const;

  /// dx_full[T, I] = dy[T, O/n] w, this shard's part of the sum over shards.
  void input_gradient(Stream& stream, const Tensor& dy, const void* packed, const Tensor& dx_full);
  /// Sums dx_full over the shards: in place (dx is dx_full), or with sequence parallelism the
  /// shard's tokens into dx[T/n, I]. Null if there is nothing to sum.
  std::unique_ptr<Work> reduce_input_gradient(Stream& stream, const Tensor& dx_full,
                                              const Tensor& dx);
  /// dw[O/n, I] and db[O/n] (float32) as Linear::weight_gradient() and Ops::bias_gradient(); either
  /// may be empty.
  void weight_gradient(Stream& stream, const Tensor& dy, const Tensor& x_full, const Tensor& dw,
                       const Tensor& db, Gradient gradient);

  /// All parts of a forward.
  void forward(Stream& stream, const Tensor& x, const Tensor& x_full, const void* packed,
               const Tensor& bias, const Tensor& y);
  /// All parts of a backward. The input is gathered again while the input gradient computes, and
  /// the input gradient is summed while the weight gradient computes.
  void backward(Stream& stream, const void* packed, const ColumnBackward& tensors);

 private:
  TensorParallel parallel_;
  ColumnParallelOptions options_;
  Ops& ops_;
  LinearShape shape_;
  std::unique_ptr<Linear> linear_;
};

}  // namespace troupe::tensor
