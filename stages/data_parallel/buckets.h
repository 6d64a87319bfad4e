#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stages/stage.h"

namespace troupe::stages {

/// A run of a stage's gradients that is reduced at once: whole parameters, with the padding behind
/// each.
struct Bucket {
  ParameterRange parameters;
  std::int64_t begin = 0;  ///< elements of Stage::gradients()
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// How many parameters share a bucket. One of the two is given, the other is 0.
struct BucketRule {
  std::int64_t size = 0;  ///< elements with which a bucket is full, at least 1
  int count = 0;  ///< buckets of about equal size; a stage with fewer parameters has one for each
  bool operator==(const BucketRule&) const = default;
};

/// Cuts a stage's gradients of `size` elements, of parameters that begin at `offsets`, ascending
/// from 0. Buckets are numbered from the end of the layout, because backwards mostly end there
/// first. They depend on the stage's parameters and the rule alone, not on the number of replicas.
std::vector<Bucket> cut_into_buckets(std::span<const std::int64_t> offsets, std::int64_t size,
                                     const BucketRule& rule);

}  // namespace troupe::stages
