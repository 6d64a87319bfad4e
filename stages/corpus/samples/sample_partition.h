#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "stages/corpus/samples/sample_table.h"

namespace troupe::stages {

/// Deals the samples of a step out to its microbatches so that all have about equally many tokens:
/// the longest sample first, each to the microbatch with the fewest tokens so far (R. L. Graham,
/// 1969; ties go to the lower number). A pure function of the samples' lengths.
///
/// With `micro` samples for each microbatch on average, none gets more tokens than micro times the
/// longest sample has: whenever a sample is dealt, some microbatch has fewer than `micro` samples,
/// so that the lightest one has at most the tokens of micro - 1 longest samples.
class SamplePartition {
 public:
  SamplePartition(std::size_t samples, int microbatches);
  /// Deals samples.size() samples out, as many as were announced. Allocates nothing.
  void deal(std::span<const Sample> samples);
  /// The numbers of a microbatch's samples, the longest first. Valid until the next deal().
  std::span<const std::int32_t> microbatch(int m) const;

 private:
  /// Tokens of a microbatch so far, and its number.
  using Load = std::pair<std::int64_t, int>;

  std::vector<std::int32_t> by_length_;  // numbers of samples, the longest first
  std::vector<int> microbatch_of_;       // by place in by_length_
  std::vector<Load> loads_;              // a heap with the lightest on top
  std::vector<std::int32_t> dealt_;      // numbers of samples, by microbatch
  std::vector<std::size_t> ends_;        // of the microbatches in dealt_
};

}  // namespace troupe::stages
