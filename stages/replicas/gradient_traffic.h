#pragma once

#include <cstdint>

#include "stages/stage/buckets.h"
#include "stages/stage/stage_spec.h"

namespace troupe::stages {

/// The largest collectives that complete a stage's gradients and share its update, in elements.
struct GradientTraffic {
  int at_once = 1;          ///< buckets of which a collective is under way at a time
  std::int64_t bucket = 0;  ///< gradients of a bucket
  std::int64_t slice = 0;   ///< of a bucket, if replicas divide the state
  std::int64_t tied = 0;    ///< the gradient of a tied embedding whose other use another stage has
  std::int64_t norms = 0;   ///< gradients of a bucket that all shards hold alike
  std::int64_t kv_heads = 0;  ///< the same: that shards with the same heads hold
  /// Numbers of 8 bytes that one replica has for another: a digest of each weight, or the sums of
  /// squares of its slices.
  std::int64_t sums = 0;
  /// Buckets whose divided weights are gathered at a time, for forwards and for backwards.
  int forward_gathers = 0, backward_gathers = 0;
};
GradientTraffic gradient_traffic(const BucketRule& rule, const StageSpec& stage);

}  // namespace troupe::stages
