#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "stages/replicas/bucket_reduction.h"
#include "stages/replicas/slice_norms.h"
#include "stages/replicas/weight_exchange.h"

namespace troupe::stages {

/// DataParallel in every division of state: how gradients are reduced, how norms are summed, and
/// how weights come to all replicas, one beside the other.
class StageReplicas final : public DataParallel {
 public:
  StageReplicas(const DataParallelSpec& spec, Stage& stage, const GradientGroups& groups,
                tensor::Device& device);
  ~StageReplicas() override;

  std::int64_t allocated() const override {
    return gradients_.allocated() + (norms_ ? norms_->allocated() : 0);
  }
  void begin_step() override;
  void expect(const UnitOrder& order) override;
  void added(const NodeEffects& node, Microbatch microbatch, tensor::Event& ran) override;
  void progress() override;
  void finish() override { gradients_.finish(); }
  void squared_norms(std::span<double> out) override;
  void apply(const tensor::AdamWStep& step) override { stage_.apply(step); }
  void share_weights() override;
  void complete_weights() override;
  const tensor::Work* awaited(Pass pass, const NodeEffects& node) override;
  double open(Pass pass, const NodeEffects& node) override;

  std::span<const CollectiveReport> collectives() const override { return log_.rows(); }
  std::span<const CollectiveSpan> spans() const override { return log_.spans(); }
  const std::string& not_finite() const override { return gradients_.not_finite(); }
  std::span<const LargeBucket> large_buckets() const override { return gradients_.large_buckets(); }

 private:
  Stage& stage_;
  CollectiveLog log_;
  /// The buckets of a stage whose replicas divide state; else none.
  const std::vector<SharedBucket> buckets_;
  BucketReduction gradients_;
  const std::unique_ptr<tensor::Stream> stream_;
  std::optional<SliceNorms> norms_;          // if gradients are complete in slices alone
  std::unique_ptr<WeightExchange> weights_;  // null: every replica updates all
};

}  // namespace troupe::stages
