#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/replicas/shared_buckets.h"

namespace troupe::stages {

/// Looks at a stage's own gradients before they are added to those of others. Allocates nothing
/// unless it is asked to look.
class BucketChecks {
 public:
  /// `stage` and `buckets` outlive it.
  BucketChecks(const DataParallelSpec& spec, const Stage& stage,
               const std::vector<SharedBucket>& buckets, tensor::Device& device);
  static std::int64_t bytes(const DataParallelSpec& spec, std::size_t num_parameters);
  std::int64_t allocated() const { return static_cast<std::int64_t>(squares_.bytes()); }

  void begin_step();
  /// Queues the sums of squares of a bucket's gradients, which are complete on this rank, for the
  /// given reduction of the bucket in this step.
  void look_at(std::size_t bucket, int reduction, tensor::Stream& stream);
  /// Reads what was found. Called after the stream has run.
  void read();

  const std::string& not_finite() const { return not_finite_; }
  std::span<const LargeBucket> large_buckets() const { return large_buckets_; }

 private:
  /// The sum of squares of a parameter's gradient in a reduction.
  tensor::Tensor square_of(int reduction, std::size_t parameter) const;
  void read(std::size_t bucket, int reduction);

  const DataParallelSpec spec_;
  const Stage& stage_;
  const std::vector<SharedBucket>& buckets_;
  const std::size_t num_squares_;   // of a reduction of all buckets
  const tensor::Buffer squares_;    // pinned: float64
  std::vector<int> num_looked_at_;  // by bucket: reductions in this step
  std::string not_finite_;
  std::vector<LargeBucket> large_buckets_;
};

}  // namespace troupe::stages
