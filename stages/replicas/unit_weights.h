#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "stages/replicas/collective_log.h"
#include "stages/replicas/shared_buckets.h"
#include "stages/replicas/weight_exchange.h"

namespace troupe::stages {

/// Each replica keeps the weights of its slices alone (ZeRO-3, arXiv 1910.02054). Those of a bucket
/// are gathered into its slot shortly before nodes read them, and packed there; the next bucket of
/// the slot overwrites them. Forwards and backwards each have slots and a group of their own and
/// gather in the order in which their own nodes come, because two passes may alternate differently
/// on other replicas. Gathers begin when the bucket that has the slot is no longer read, at most
/// StateSharding::prefetch ahead of the bucket that is. If weights stay gathered, backwards read
/// the slots of forwards.
class UnitWeights final : public WeightExchange {
 public:
  /// All references outlive it; spec.prefetch and spec.reshards are those of the stage.
  UnitWeights(const DataParallelSpec& spec, Stage& stage, std::span<const SharedBucket> buckets,
              const GradientGroups& groups, tensor::Device& device, CollectiveLog& log);
  ~UnitWeights() override;

  void begin_step() override { report_.clear(); }
  void expect(const UnitOrder& order) override;
  void share() override { is_stale_ = true; }
  void complete() override {}
  void progress() override;
  const tensor::Work* awaited(Pass pass, const NodeEffects& node) override;
  double open(Pass pass, const NodeEffects& node) override;

 private:
  static constexpr std::ptrdiff_t kNotUsed = -1;
  /// What a slot has.
  struct Slot {
    int bucket = -1;  ///< -1: nothing that can be read
    /// Place in the order of the latest use for which the bucket is, or is being, gathered.
    std::ptrdiff_t last_use = kNotUsed;
    std::unique_ptr<tensor::Work> gather;  ///< until it is done and its time was taken
    bool is_packed = false;                ///< whether a node has waited for it
    double began_s = 0;
    std::unique_ptr<tensor::Event> released;  ///< reached when the nodes that read it have run
  };
  /// The slots of one pass.
  struct Lane {
    tensor::ProcessGroup* group = nullptr;
    Pass pass = Pass::forward;
    std::unique_ptr<tensor::Stream> stream;
    std::vector<Slot> slots;
    std::span<const int> order;
    /// Places in the order: of the buckets that the node called last reads, and of the next bucket
    /// to be gathered.
    std::size_t first_read = 0, end_read = 0, gathered = 0;
  };

  /// The lane whose slots a pass reads, and whether the pass is the one that fills them.
  Lane& lane_of(Pass pass) { return lanes_[fills(pass) && pass != Pass::forward ? 1 : 0]; }
  bool fills(Pass pass) const { return reshards_ || pass == Pass::forward; }
  Slot& slot_of(Lane& lane, int bucket);
  const tensor::Tensor& whole_of(const Lane& lane, int bucket) const;
  void advance(Lane& lane, std::span<const int> reads);
  void gather_ahead(Lane& lane);
  void gather(Lane& lane, Slot& slot, int bucket);
  void take_time(Slot& slot);

  Stage& stage_;
  const std::span<const SharedBucket> buckets_;
  const bool reshards_;
  const std::size_t ahead_;  // buckets
  CollectiveLog& log_;
  CollectiveReport& report_;
  std::array<Lane, 2> lanes_;  // of forwards and evaluations, and of backwards
  bool is_stale_ = true;       // whether weights have changed since slots were filled
};

}  // namespace troupe::stages
