#pragma once

#include <memory>

#include "tensor/device/ops.h"
#include "tensor/parallel/division.h"
#include "tensor/parallel/tensor_parallel.h"

namespace troupe::tensor {

struct CrossEntropyShape {
  std::int64_t tokens = 0;      // T, all tokens of a microbatch
  std::int64_t vocabulary = 0;  // V, padded: columns of all shards
  std::int64_t classes = 0;     // K <= V: only these columns count
};

struct CrossEntropyOptions {
  /// Megatron's alpha, the probability that is spread over the classes that are not the target; 0
  /// to below 1. It is torch's label_smoothing times (K - 1) / K.
  double label_smoothing = 0;
  /// A target whose token has no loss and no gradient.
  std::int32_t ignored = -100;
};

/// What a loss needs between its parts, from the caller, for each microbatch whose loss is under
/// way: float32, max[T] and sums[sums_rows(), T].
struct CrossEntropyScratch {
  Tensor max, sums;
};

/// Cross-entropy of logits[T, V] whose columns are divided among shards, without gathering them
/// (Megatron-LM, arXiv 1909.08053): a maximum and one collective of sums over the shards, of size T
/// each. Every shard gets the same loss. The gradient takes no communication. Every shard has all T
/// tokens, also with sequence parallelism, because the head gathers them. The parts run in the
/// order in which they stand here.
class VocabParallelCrossEntropy {
 public:
  /// Device and groups outlive the layer. Throws Error{manifest} if the shards do not divide V, and
  /// for label smoothing out of its range or of a single class.
  VocabParallelCrossEntropy(Device& device, const CrossEntropyShape& whole,
                            const TensorParallel& parallel,
                            const CrossEntropyOptions& options = {});

  /// The columns that this shard holds.
  const VocabRange& range() const { return range_; }
  /// Rows of CrossEntropyScratch::sums: 2, or 3 with label smoothing.
  std::int64_t sums_rows() const { return loss_.smoothing > 0 ? 3 : 2; }

  /// scratch.max = the maximum of each row of logits[T, V/n] (float32).
  void local_max(Stream& stream, const Tensor& logits, const CrossEntropyScratch& scratch);
  /// scratch.max = its maximum over the shards; null if there is one shard.
  std::unique_ptr<Work> reduce_max(Stream& stream, const CrossEntropyScratch& scratch);
  /// Replaces logits by exponentials, and fills scratch.sums. targets[T] int32.
  void local_sums(Stream& stream, const Tensor& logits, const Tensor& targets,
                  const CrossEntropyScratch& scratch);
  /// scratch.sums = their sum over the shards; null if there is one shard.
  std::unique_ptr<Work> reduce_sums(Stream& stream, const CrossEntropyScratch& scratch);
  /// sum (float64, one element) = the loss, summed over the tokens in an order that depends on T
  /// alone. If dlogits[T, V/n] (act) is given: the gradient times `scale`; it may be the float32
  /// logits. If token_losses[T] (float64) is given: each token's loss.
  void finish(Stream& stream, const Tensor& exponentials, const Tensor& targets,
              const CrossEntropyScratch& scratch, float scale, const Tensor& sum,
              const Tensor& dlogits = {}, const Tensor& token_losses = {});

  /// All parts.
  void loss(Stream& stream, const Tensor& logits, const Tensor& targets,
            const CrossEntropyScratch& scratch, float scale, const Tensor& sum,
            const Tensor& dlogits = {});

 private:
  TensorParallel parallel_;
  VocabRange range_;
  VocabColumns columns_;
  VocabLoss loss_;
  Ops& ops_;
};

}  // namespace troupe::tensor
