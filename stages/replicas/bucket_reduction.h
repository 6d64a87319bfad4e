#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "stages/replicas/bucket_checks.h"
#include "stages/replicas/collective_log.h"
#include "stages/replicas/shared_buckets.h"

namespace troupe::stages {

/// Completes gradients: of whole buckets, or of this replica's slice of each. Each bucket goes
/// through a list of phases, most of which exist in few stages; each phase ends on this rank before
/// the next one begins. A few buckets are under way at once, so that the memory of their
/// collectives is bounded.
///
/// Divided gradients are summed over the replicas after every microbatch, out of the slots in which
/// backwards write them, and added to the slice that stays. What else completes them is done with
/// the slices at the end of the step.
class BucketReduction {
 public:
  /// `log` outlives it.
  BucketReduction(const DataParallelSpec& spec, Stage& stage, const GradientGroups& groups,
                  tensor::Device& device, CollectiveLog& log);
  ~BucketReduction();
  /// Enough to hide the time between a bucket's messages.
  static constexpr std::size_t kUnderWay = 4;
  /// Bytes that it allocates for a stage with so many replicas, without TiedSums.
  static std::int64_t bytes(const DataParallelSpec& spec, const StageSpec& stage, int replicas);

  std::int64_t allocated() const {
    return static_cast<std::int64_t>(wire_.bytes()) + checks_.allocated() +
           (tied_sums_ ? tied_sums_->allocated() : 0);
  }
  void begin_step();
  void added(const NodeEffects& node, Microbatch microbatch, tensor::Event& ran);
  void progress();
  void finish();
  /// NodeGate's, of nodes that add to divided gradients.
  const tensor::Work* awaited(const NodeEffects& node);
  double open(const NodeEffects& node);

  std::span<const SharedBucket> buckets() const { return buckets_; }
  const std::string& not_finite() const { return checks_.not_finite(); }
  std::span<const LargeBucket> large_buckets() const { return checks_.large_buckets(); }

 private:
  /// What completes a bucket's gradients.
  enum class Phase {
    checks,     ///< of what this rank has computed
    tied,       ///< the other use of a tied embedding, on another stage
    uses,       ///< both uses on this stage
    shards,     ///< parameters that all shards hold alike
    kv_heads,   ///< key and value heads that some shards share
    mirror,     ///< the copy of the same layers
    replicas,   ///< all, or those that hold the same experts
    instances,  ///< the replicas that keep the same slice
    twins,      ///< the slice of the replica before
  };
  using Phases = std::span<const Phase>;
  /// A bucket that is to go through phases.
  struct Ready {
    std::size_t bucket = 0;
    Phases phases;
  };
  /// A bucket that has begun.
  struct UnderWay {
    Ready what;
    std::size_t num_begun = 0;  ///< its phases that have begun
    bool done = false;
    std::unique_ptr<tensor::Work> work;
    /// That of the phase before, given back when the next one ends or another bucket begins in this
    /// place, so that every step has as many.
    std::unique_ptr<tensor::Work> ended;
    CollectiveReport* report = nullptr;  ///< of the work; null: none
    double began_s = 0;
    Phase phase() const { return what.phases[num_begun - 1]; }
  };
  /// A collective that a stream waits for, whose time is told once the step's are done.
  struct Untimed {
    CollectiveReport* report;
    int bucket;
    double began_s;
    std::unique_ptr<tensor::Work> work;
  };
  /// With whom gradients are exchanged, and the row of the log about it; null: with nobody.
  struct Exchange {
    tensor::ProcessGroup* group = nullptr;
    CollectiveReport* report = nullptr;
    Exchange() = default;
    Exchange(const GradientGroup& of, const char* operation, CollectiveLog& log)
        : group(of.group), report(group ? &log.add(of.name, operation) : nullptr) {}
  };
  /// Whether this rank's replica is the first of its stage.
  static bool is_first(const Exchange& replicas, const Exchange& instances);
  UnderWay& under_way(std::size_t place) { return under_way_[place % kUnderWay]; }
  const SharedBucket& bucket_of(const UnderWay& now) const { return buckets_[now.what.bucket]; }
  tensor::Tensor on_wire(const SharedBucket& bucket) const;
  tensor::Tensor own_slice(const SharedBucket& bucket, const tensor::Tensor& x) const;
  void make_ready(std::size_t bucket);
  void go_on(std::size_t place);
  void begin_phase(UnderWay& now);
  void end_phase(UnderWay& now);
  void end(UnderWay& now);
  void drain();
  void complete_slices();
  void all_reduce(UnderWay& now, const Exchange& with, const tensor::Tensor& x);
  void add_other_use(UnderWay& now);
  void reduce_over_replicas(UnderWay& now);
  void forward_to_twin(UnderWay& now);
  void begin(UnderWay& now, const Exchange& with, const tensor::Tensor& x);
  void add_to_kept(std::size_t bucket);
  double wait_for(UnderWay& oldest);
  const UnderWay* blocking(const NodeEffects& node);

  const DataParallelSpec spec_;
  Stage& stage_;
  CollectiveLog& log_;
  const Exchange tied_, mirror_, replicas_, experts_, instances_, twins_;
  /// Whether the exchange of a tied matrix has summed it over the replicas, too, of which another
  /// one brings that into their sum of the bucket, which has other parameters.
  const bool gives_sum_away_;
  /// If the stages of a tied matrix cut it otherwise, and what this rank keeps of its gradient.
  std::optional<TiedSums> tied_sums_;
  tensor::Tensor kept_of_tied_;
  const bool is_divided_;  ///< whether gradients are
  const std::unique_ptr<tensor::Stream> stream_;
  const std::vector<SharedBucket> buckets_;
  BucketChecks checks_;
  const tensor::Buffer wire_;           // gradients in bfloat16, laid out alike; empty for float32
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<int> adders_;  // by bucket: calls of added() that make it ready in a microbatch
  std::size_t tied_bucket_ =
      0;  // the bucket that is exchanged with another stage; their number: none

  std::vector<int> missing_;           // by bucket: calls of added() still to come, or kReady
  std::vector<int> num_reductions_;    // by bucket: of divided gradients in this step
  std::vector<Ready> ready_;           // in the order in which they begin
  std::size_t begun_ = 0, ended_ = 0;  // places in ready_
  std::array<UnderWay, kUnderWay> under_way_;
  std::vector<Untimed> untimed_;
  /// By slot: one more than the place of the bucket whose gradients were there last; 0: none. The
  /// event is reached when they have been added to the slice.
  std::vector<std::size_t> last_in_slot_;
  std::vector<std::unique_ptr<tensor::Event>> slot_is_free_;
};

}  // namespace troupe::stages
