#pragma once

#include <cstdint>
#include <vector>

#include "stages/replicas/data_parallel.h"
#include "stages/stage/slices.h"

namespace troupe::stages {

/// A bucket as the replicas of a stage share it.
struct SharedBucket {
  StateBucket memory;
  /// By replica; empty if each keeps all.
  std::vector<Slice> slices;
  std::vector<std::int64_t> counts;  ///< the slices' elements
  /// By replica, the elements that this one sends to the next one, and receives from the one
  /// before, of its slice.
  std::vector<std::int64_t> sent, received;

  const Bucket& range() const { return memory.range; }
};

/// The buckets of a stage: its own if it divides state, else cut as `spec` says. `replicas`: null
/// if there is one alone.
std::vector<SharedBucket> shared_buckets(const DataParallelSpec& spec, const Stage& stage,
                                         const tensor::ProcessGroup* replicas);

/// `size` elements of a tensor from `begin` on, flat.
tensor::Tensor elements_of(const tensor::Tensor& x, std::int64_t begin, std::int64_t size);

}  // namespace troupe::stages
