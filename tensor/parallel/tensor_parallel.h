#pragma once

#include <memory>

#include "tensor/process_group.h"

namespace troupe::tensor {

/// What the layers of one shard know about the others. Each matrix of a stage is divided among its
/// shards, which hold the same tokens between the layers, or, with sequence parallelism, each a
/// contiguous 1/size() of the T tokens of a microbatch in ascending shard order (Megatron-LM, arXiv
/// 1909.08053; with sequence parallelism 2205.05198).
struct TensorParallel {
  ProcessGroup* group = nullptr;   ///< its members are the shards; null: there is one shard
  bool sequence_parallel = false;  ///< has no effect on a single shard

  int size() const { return group ? group->size() : 1; }
  int shard() const { return group ? group->member() : 0; }
  bool splits_tokens() const { return sequence_parallel && size() > 1; }
};

/// Makes ops that `stream` is given from now on run after `work`. Null stands for a collective that
/// was not needed.
inline void wait(const std::unique_ptr<Work>& work, Stream& stream) {
  if (work) work->wait(stream);
}

}  // namespace troupe::tensor
