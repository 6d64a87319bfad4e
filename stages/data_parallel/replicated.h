#pragma once

#include "stages/data_parallel/bucket_reduction.h"

namespace troupe::stages {

/// Every replica holds all state, and makes the same update of all of it.
class Replicated final : public BucketReduction {
 public:
  using BucketReduction::BucketReduction;

  void squared_norms(std::span<double> out) override { stage().squared_norms(out); }
  void apply(const tensor::AdamWStep& step) override { stage().apply(step); }
  void share_weights() override {}
  void complete_weights() override {}
};

}  // namespace troupe::stages
