#pragma once

#include <cstddef>
#include <memory>

#include "tensor/device/linear.h"
#include "tensor/device/ops.h"
#include "tensor/parallel/tensor_parallel.h"

namespace troupe::tensor {

/// A shard of a linear layer. One object serves every layer of its shape, and all memory is the
/// caller's, as for Linear; what may run at the same time is the same too. The collectives stand
/// apart from the products, so that a caller can run them while it computes something else.
class ParallelLinear {
 public:
  /// The shape of this shard's products.
  const LinearShape& shard_shape() const { return shape_; }
  /// Packing and scratch memory as Linear has them, for the shard's part of the weight.
  std::size_t packed_bytes() const { return linear_->packed_bytes(); }
  ScratchBytes scratch_bytes() const { return linear_->scratch_bytes(); }
  void set_scratch(const Scratch& scratch) { linear_->set_scratch(scratch); }
  void pack(Stream& stream, const Tensor& w, void* packed) { linear_->pack(stream, w, packed); }
  Tensor packed_copy(void* packed) const { return linear_->packed_copy(packed); }
  /// dx = dy w, of the shard's products. Of outputs that are divided it is this shard's part of the
  /// sum over shards, dx_full[T, I]; of inputs that are divided it is whole, dx[T, I/n].
  void input_gradient(Stream& stream, const Tensor& dy, const void* packed, const Tensor& dx) {
    linear_->input_gradient(stream, dy, packed, dx);
  }

 protected:
  ParallelLinear(Device& device, const LinearShape& shard, const TensorParallel& parallel)
      : parallel_(parallel),
        ops_(device.ops()),
        shape_(shard),
        linear_(device.make_linear(shard)) {}

  const TensorParallel parallel_;
  Ops& ops_;
  const LinearShape shape_;
  const std::unique_ptr<Linear> linear_;
};

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
/// w[O, I] and of b[O], and computes these columns of y[T, O]. forward() and backward() run all
/// parts in Megatron's order.
class ColumnParallelLinear final : public ParallelLinear {
 public:
  /// whole: the layer before it is divided; rows = T, all tokens of a microbatch. Device and groups
  /// outlive the layer. Throws Error{manifest} if the shards do not divide O, or, with sequence
  /// parallelism, T.
  ColumnParallelLinear(Device& device, const LinearShape& whole, const TensorParallel& parallel,
                       const ColumnParallelOptions& options = {});

  /// Elements that x_full and dx_full need each: T*I with sequence parallelism; 0 without, because
  /// they are x and dx then.
  std::int64_t gathered_elements() const;

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
  const ColumnParallelOptions options_;
};

/// Tensors of a whole forward of a RowParallelLinear; the shapes are those of its parts. Without
/// sequence parallelism y is y_partial.
struct RowForward {
  Tensor x;
  Tensor y_partial, y;
  Tensor bias;      // empty: no bias, or the caller adds it later
  Tensor residual;  // empty: none
};

/// Tensors of a whole backward. Without sequence parallelism dy_full is dy.
struct RowBackward {
  Tensor dy, dy_full;
  Tensor x;  // empty if dw is
  Tensor dx;
  Tensor dw;  // empty: the weight is frozen
  Tensor db;  // empty: no bias, or a frozen one
  Gradient gradient = Gradient::first;
};

/// A linear layer y = x w^T + b whose inputs are divided: shard r of n holds columns r*I/n ... of
/// w[O, I] and has these columns of x[T, I], and y[T, O] is the sum of what all shards compute. The
/// bias b[O] is whole on every shard and is added once, after the sum. A layer made for a part of
/// the tokens lets the sum of one part run under the product of the next; with sequence parallelism
/// the tokens are summed all at once.
class RowParallelLinear final : public ParallelLinear {
 public:
  /// whole: the layer before it is divided; rows = T, all tokens of a microbatch. Device and groups
  /// outlive the layer. Throws Error{manifest} if the shards do not divide I, or, with sequence
  /// parallelism, T.
  RowParallelLinear(Device& device, const LinearShape& whole, const TensorParallel& parallel);

  /// Elements that y_partial and dy_full need each: T*O with sequence parallelism; 0 without,
  /// because they are y and dy then.
  std::int64_t gathered_elements() const;

  /// Takes the shard's columns of an input[T, I] that every shard has, if no column-parallel layer
  /// divided it: own_columns(), whose gradient is gather_columns().
  Tensor scatter_input(Stream& stream, const Tensor& input, const Tensor& x) const;
  /// y_partial[T, O] = x[T, I/n] w^T. A single shard may add the residual[T, O] in the same pass,
  /// which then is not given to add_bias_and_residual().
  void product(Stream& stream, const Tensor& x, const void* packed, const Tensor& y_partial,
               const Tensor& residual = {});
  /// Sums y_partial over the shards: in place (y is y_partial), or with sequence parallelism the
  /// shard's tokens into y[T/n, O]. Null if there is one shard.
  std::unique_ptr<Work> reduce_output(Stream& stream, const Tensor& y_partial, const Tensor& y);
  /// y += bias[O] (float32) + residual (y's shape and dtype); either may be empty. y holds T
  /// tokens, or T/n with sequence parallelism. A caller that fuses the bias into a later op leaves
  /// it out.
  void add_bias_and_residual(Stream& stream, const Tensor& bias, const Tensor& residual,
                             const Tensor& y);

  /// With sequence parallelism gathers the tokens of dy[T/n, O] into dy_full[T, O]; else null.
  std::unique_ptr<Work> gather_output_gradient(Stream& stream, const Tensor& dy,
                                               const Tensor& dy_full);
  /// dw[O, I/n] (float32) as Linear::weight_gradient().
  void weight_gradient(Stream& stream, const Tensor& dy_full, const Tensor& x, const Tensor& dw,
                       Gradient gradient);
  /// db[O] (float32) as Ops::bias_gradient(). With sequence parallelism dy holds the shard's tokens
  /// alone, so that db has to be summed over the shards, once a step.
  void bias_gradient(Stream& stream, const Tensor& dy, const Tensor& db, Gradient gradient);

  /// All parts of a forward.
  void forward(Stream& stream, const void* packed, const RowForward& tensors);
  /// All parts of a backward. The bias gradient computes while dy is gathered.
  void backward(Stream& stream, const void* packed, const RowBackward& tensors);
};

}  // namespace troupe::tensor
