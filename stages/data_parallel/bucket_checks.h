#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stages/data_parallel/data_parallel.h"

namespace troupe::stages {

/// Looks at a stage's own gradients before they are added to those of others. Allocates nothing
/// unless it is asked to look.
class BucketChecks {
 public:
  /// `stage` and `buckets` outlive it.
  BucketChecks(const DataParallelSpec& spec, const Stage& stage, const std::vector<Bucket>& buckets,
               tensor::Device& device);
  static std::int64_t bytes(const DataParallelSpec& spec, std::size_t num_parameters);

  void begin_step();
  /// Queues the sums of squares of a bucket's gradients, which are complete on this rank.
  void look_at(const Bucket& bucket, tensor::Stream& stream);
  /// Reads what was found. Called after the stream has run.
  void read();

  const std::string& not_finite() const { return not_finite_; }
  std::span<const LargeBucket> large_buckets() const { return large_buckets_; }

 private:
  tensor::Tensor square_of(int parameter) const;

  const DataParallelSpec spec_;
  const Stage& stage_;
  const std::vector<Bucket>& buckets_;
  const tensor::Buffer squares_;  // pinned: a float64 for each parameter
  std::string not_finite_;
  std::vector<LargeBucket> large_buckets_;
};

}  // namespace troupe::stages
