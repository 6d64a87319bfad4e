#pragma once

#include <memory>

#include "tensor/device/linear.h"
#include "tensor/device/ops.h"
#include "tensor/parallel/division.h"
#include "tensor/parallel/tensor_parallel.h"

namespace troupe::tensor {

struct EmbeddingShape {
  std::int64_t tokens = 0;      // T, all tokens of a microbatch
  std::int64_t vocabulary = 0;  // V, padded
  std::int64_t channels = 0;    // C
  bool operator==(const EmbeddingShape&) const = default;
};

/// Token embedding whose table[V, C] is divided by rows: a shard looks up the ids of its own range,
/// and the sum over shards completes the rows. The sum has one term that is not zero, so that every
/// number of shards gives the same bits. All memory is the caller's.
class VocabParallelEmbedding {
 public:
  /// Device and groups outlive the layer. Throws Error{manifest} if the shards do not divide V, or,
  /// with sequence parallelism, T.
  VocabParallelEmbedding(Device& device, const EmbeddingShape& whole,
                         const TensorParallel& parallel);

  /// The rows that this shard holds.
  const VocabRange& range() const { return range_; }
  /// Elements that x_full and dx_full need each: T*C with sequence parallelism; 0 without, because
  /// they are x and dx then.
  std::int64_t gathered_elements() const;

  /// x_full[T, C] (act) = the rows of table[V/n, C] (float32) at ids[T] (int32), zeros for ids of
  /// other shards.
  void lookup(Stream& stream, const Tensor& ids, const Tensor& table, const Tensor& x_full);
  /// Sums x_full over the shards: in place (x is x_full), or with sequence parallelism the shard's
  /// tokens into x[T/n, C]. Null if there is one shard.
  std::unique_ptr<Work> reduce_output(Stream& stream, const Tensor& x_full, const Tensor& x);

  /// With sequence parallelism gathers the tokens of dx[T/n, C] into dx_full[T, C]; else null.
  std::unique_ptr<Work> gather_output_gradient(Stream& stream, const Tensor& dx,
                                               const Tensor& dx_full);
  /// dtable[V/n, C] (float32) = or += the gradient of the shard's rows, in ascending token order.
  void weight_gradient(Stream& stream, const Tensor& ids, const Tensor& dx_full,
                       const Tensor& dtable, Gradient gradient);

  /// All parts of a forward, and of a backward.
  void forward(Stream& stream, const Tensor& ids, const Tensor& table, const Tensor& x_full,
               const Tensor& x);
  void backward(Stream& stream, const Tensor& ids, const Tensor& dx, const Tensor& dx_full,
                const Tensor& dtable, Gradient gradient);

 private:
  TensorParallel parallel_;
  EmbeddingShape whole_;
  VocabRange range_;
  Ops& ops_;
};

}  // namespace troupe::tensor
