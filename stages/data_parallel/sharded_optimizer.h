#pragma once

#include <memory>
#include <vector>

#include "stages/data_parallel/bucket_reduction.h"
#include "stages/gradient_pieces.h"

namespace troupe::stages {

/// Each replica has the moments of a slice of every bucket, updates the weights there, and gathers
/// the others' (ZeRO-1, arXiv 1910.02054). Gradients are reduced into the slices alone. Norms are
/// added up from the sums of pieces, which the replicas gather, so that they have the bits of a
/// stage that is not divided. With twins a replica also updates the slices of the one before it,
/// whose gradients their owner forwards; the owner alone sums and shares them.
class ShardedOptimizer final : public BucketReduction {
 public:
  ShardedOptimizer(const DataParallelSpec& spec, Stage& stage, GradientGroups groups,
                   tensor::Device& device);
  ~ShardedOptimizer() override;
  /// Bytes that it allocates for a stage with so many replicas.
  static std::int64_t bytes(const DataParallelSpec& spec, const StageSpec& stage, int replicas);

  void squared_norms(std::span<double> out) override;
  void apply(const tensor::AdamWStep& step) override { stage().apply(step); }
  void share_weights() override;
  void complete_weights() override;

 private:
  /// Calls body(pieces) for each run of pieces that the replica sums, in the order of buckets.
  template <typename Body>
  void each_run(int replica, const Body& body) const;
  tensor::Tensor weights(std::int64_t begin, std::int64_t size);

  const bool overlaps_gather_;
  const GradientSquares squares_;
  std::vector<std::int64_t> sums_of_;  // by replica: how many sums it makes
  const tensor::Buffer gathered_;      // pinned: the sums of all replicas, one after the other
  struct Gather {
    std::unique_ptr<tensor::Work> work;
    double began_s = 0;
  };
  std::vector<Gather> under_way_;  // by bucket, while weights are not whole
};

}  // namespace troupe::stages
