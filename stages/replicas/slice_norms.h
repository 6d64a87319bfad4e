#pragma once

#include <cstdint>
#include <vector>

#include "stages/replicas/shared_buckets.h"
#include "stages/stage/gradient_pieces.h"

namespace troupe::stages {

/// Squared norms of gradients of which each replica has slices. They are added up from the sums of
/// pieces, which the replicas gather, so that they have the bits of a stage that is not divided.
class SliceNorms {
 public:
  /// All references outlive it.
  SliceNorms(const Stage& stage, std::span<const SharedBucket> buckets,
             tensor::ProcessGroup& replicas, tensor::Device& device);
  /// Bytes that it allocates for a stage with so many pieces.
  static std::int64_t bytes(std::size_t num_pieces);
  std::int64_t allocated() const {
    return squares_.allocated() + static_cast<std::int64_t>(gathered_.bytes());
  }
  /// Stage::squared_norms() of the gradients of all slices. Blocks until all replicas have called
  /// it.
  void sum(tensor::Stream& stream, std::span<double> out);

 private:
  /// Calls body(pieces) for each run of pieces that the replica sums, in the order of buckets.
  template <typename Body>
  void each_run(int replica, const Body& body) const;

  const std::span<const SharedBucket> buckets_;
  tensor::ProcessGroup& replicas_;
  const GradientSquares squares_;
  std::vector<std::int64_t> sums_of_;  // by replica: how many sums it makes
  const tensor::Buffer gathered_;      // pinned: the sums of all replicas, one after the other
};

}  // namespace troupe::stages
