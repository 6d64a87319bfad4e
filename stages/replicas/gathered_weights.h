#pragma once

#include <memory>
#include <vector>

#include "stages/replicas/collective_log.h"
#include "stages/replicas/shared_buckets.h"
#include "stages/replicas/weight_exchange.h"

namespace troupe::stages {

/// Every replica has all weights: each bucket's are gathered once they have been updated, beside
/// what follows the update.
class GatheredWeights final : public WeightExchange {
 public:
  /// All references outlive it. `overlaps`: DataParallelSpec::overlaps_gather.
  GatheredWeights(Stage& stage, std::span<const SharedBucket> buckets,
                  const GradientGroup& replicas, bool overlaps, tensor::Device& device,
                  CollectiveLog& log);
  ~GatheredWeights() override;

  void begin_step() override {}
  void expect(const UnitOrder&) override {}
  void share() override;
  void complete() override;
  void progress() override {}
  const tensor::Work* awaited(Pass, const NodeEffects&) override { return nullptr; }
  double open(Pass, const NodeEffects&) override { return 0; }

 private:
  Stage& stage_;
  const std::span<const SharedBucket> buckets_;
  tensor::ProcessGroup& replicas_;
  const bool overlaps_;
  const std::unique_ptr<tensor::Stream> stream_;
  CollectiveReport& report_;
  struct Gather {
    std::unique_ptr<tensor::Work> work;
    double began_s = 0;
  };
  std::vector<Gather> under_way_;  // by bucket, while weights are not whole
};

}  // namespace troupe::stages
