#pragma once

#include <cstdint>
#include <vector>

#include "stages/replicas/data_parallel.h"
#include "stages/stage/slices.h"

namespace troupe::stages {

/// A bucket as the replicas of a stage share it.
struct SharedBucket {
  StateBucket memory;
  /// By member of the group that reduces it, those of all replicas or of the same experts; empty if
  /// each keeps all.
  std::vector<Slice> slices;
  int own = 0;                       ///< this replica's slice
  std::vector<std::int64_t> counts;  ///< the slices' elements
  /// By replica, the elements that this one sends to the one that keeps its slice too, and receives
  /// of the slice of StateSharding::twin().
  std::vector<std::int64_t> sent, received;

  const Bucket& range() const { return memory.range; }
};

/// Sharding::ep of a stage whose gradients these groups complete.
int expert_sharing(const Stage& stage, const GradientGroups& groups);

/// The buckets of a stage: its own if it divides state, else cut as `spec` says.
std::vector<SharedBucket> shared_buckets(const DataParallelSpec& spec, const Stage& stage,
                                         const GradientGroups& groups);

/// `size` elements of a tensor from `begin` on, flat.
tensor::Tensor elements_of(const tensor::Tensor& x, std::int64_t begin, std::int64_t size);

}  // namespace troupe::stages
