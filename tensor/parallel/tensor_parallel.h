#pragma once

#include <memory>

#include "tensor/device/process_group.h"

namespace troupe::tensor {

/// The groups of one stage's shards; they may be null if there is one shard. The nodes of a forward
/// and of a backward may alternate in any way, so that each has a group of its own, in which all
/// members call the same collectives in the same order.
struct TensorParallelGroups {
  ProcessGroup* forward = nullptr;
  ProcessGroup* backward = nullptr;
};

/// What the layers of one shard know about the others. Each matrix of a stage is divided among its
/// shards, which hold the same tokens between the layers, or, with sequence parallelism, each a
/// contiguous 1/size of the T tokens of a microbatch in ascending shard order (Megatron-LM, arXiv
/// 1909.08053; with sequence parallelism 2205.05198).
struct TensorParallel {
  int size = 1;
  int shard = 0;
  bool sequence_parallel = false;  ///< has no effect on a single shard
  /// Read whenever a collective is called, so that the owner may replace the groups between steps.
  /// Their members are the shards. Outlives the layers; may be null for one shard.
  const TensorParallelGroups* groups = nullptr;

  bool splits_tokens() const { return sequence_parallel && size > 1; }

  /// The group of a forward or of a backward.
  using Direction = ProcessGroup* TensorParallelGroups::*;
  /// With sequence parallelism gathers the shards' tokens of `part` into `whole`; else null,
  /// because they are the same.
  std::unique_ptr<Work> gather_tokens(Direction direction, Stream& stream, const Tensor& part,
                                      const Tensor& whole) const;
  /// Sums the shards' `x`: in place (sum is x), or with sequence parallelism the shard's tokens
  /// into `sum`. Null if there is one shard.
  std::unique_ptr<Work> reduce(Direction direction, Stream& stream, const Tensor& x,
                               const Tensor& sum) const;
};

/// Makes ops that `stream` is given from now on run after `work`. Null stands for a collective that
/// was not needed.
inline void wait(const std::unique_ptr<Work>& work, Stream& stream) {
  if (work) work->wait(stream);
}

}  // namespace troupe::tensor
