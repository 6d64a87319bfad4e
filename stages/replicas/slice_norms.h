#pragma once

#include <cstdint>
#include <vector>

#include "stages/replicas/shared_buckets.h"
#include "stages/stage/gradient_pieces.h"

namespace troupe::stages {

/// Squared norms of gradients of which each replica has slices. They are added up from the sums of
/// pieces, which the replicas gather, so that they have the bits of a stage that is not divided.
/// Those that hold the same experts do so for these.
class SliceNorms {
 public:
  /// All references outlive it.
  SliceNorms(const Stage& stage, std::span<const SharedBucket> buckets,
             const GradientGroups& groups, tensor::Device& device);
  /// Bytes that it allocates for a stage with so many pieces.
  static std::int64_t bytes(std::size_t num_pieces);
  std::int64_t allocated() const {
    return squares_.allocated() + static_cast<std::int64_t>(gathered_.bytes());
  }
  /// Stage::squared_norms() of the gradients of all slices. Blocks until all replicas have called
  /// it.
  void sum(tensor::Stream& stream, std::span<double> out);

 private:
  /// The replicas that divide some buckets: those of experts, or all others.
  struct Sharers {
    tensor::ProcessGroup* group = nullptr;  ///< null: this replica alone
    bool of_experts = false;
    std::vector<std::int64_t> sums_of{};  ///< by member: how many sums it makes
  };
  /// Calls body(pieces) for each run of pieces that a member sums, in the order of buckets.
  template <typename Body>
  void each_run(const Sharers& sharers, int member, const Body& body) const;
  void sum(tensor::Stream& stream, const Sharers& sharers);

  const std::span<const SharedBucket> buckets_;
  const GradientSquares squares_;
  std::vector<Sharers> sharers_;
  const tensor::Buffer gathered_;  // pinned: the sums of all members, one after the other
};

}  // namespace troupe::stages
