#pragma once

#include <memory>

#include "stages/replicas/collective_log.h"
#include "stages/replicas/shared_buckets.h"

namespace troupe::stages {

/// How a replica comes by the weights that others update: the functions of DataParallel that are
/// about weights. All replicas call them in the same order.
class WeightExchange {
 public:
  virtual ~WeightExchange() = default;
  /// Forgets the collectives of the step before.
  virtual void begin_step() {}
  virtual void expect(const UnitOrder&) {}
  virtual void share() = 0;
  virtual void complete() {}
  virtual void progress() {}
  virtual const tensor::Work* awaited(Pass, const NodeEffects&) { return nullptr; }
  virtual double open(Pass, const NodeEffects&) { return 0; }
};

// All references outlive what these return.

/// Every replica has all weights: each bucket's are gathered once they have been updated, beside
/// what follows the update.
std::unique_ptr<WeightExchange> make_gathered_weights(const DataParallelSpec& spec, Stage& stage,
                                                      std::span<const SharedBucket> buckets,
                                                      const GradientGroups& groups,
                                                      tensor::Device& device, CollectiveLog& log);

/// Each replica keeps the weights of its slices alone (ZeRO-3, arXiv 1910.02054). Those of a bucket
/// are gathered into its slot shortly before nodes read them, and packed there; the next bucket of
/// the slot overwrites them. Forwards and backwards each have slots and a group of their own and
/// gather in the order in which their own nodes come, because two passes may alternate differently
/// on other replicas. Gathers begin when the bucket that has the slot is no longer read, at most
/// StateSharding::prefetch ahead of the bucket that is. If weights stay gathered, backwards read
/// the slots of forwards. `spec` is that of the stage.
std::unique_ptr<WeightExchange> make_unit_weights(const DataParallelSpec& spec, Stage& stage,
                                                  std::span<const SharedBucket> buckets,
                                                  const GradientGroups& groups,
                                                  tensor::Device& device, CollectiveLog& log);

}  // namespace troupe::stages
