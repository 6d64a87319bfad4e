#pragma once

#include <array>
#include <memory>
#include <vector>

#include "stages/data_parallel/bucket_checks.h"
#include "stages/data_parallel/data_parallel.h"
#include "stages/data_parallel/slices.h"

namespace troupe::stages {

/// Completes gradients: of whole buckets, or of this replica's slice of each. What else a way of
/// data parallelism does, it derives. Each bucket goes through a list of parts, most of which exist
/// in few stages; each part ends on this rank before the next one begins. A few buckets are under
/// way at once, so that the memory of their collectives is bounded.
class BucketReduction : public DataParallel {
 public:
  BucketReduction(const DataParallelSpec& spec, Stage& stage, GradientGroups groups,
                  tensor::Device& device);
  ~BucketReduction() override;
  /// Bytes that it allocates for a stage with so many replicas.
  static std::int64_t bytes(const DataParallelSpec& spec, const StageSpec& stage, int replicas);

  void begin_step() override;
  void added(std::span<const int> parameters, Microbatch microbatch, tensor::Event& ran) override;
  void progress() override;
  void finish() override;
  std::span<const CollectiveReport> collectives() const override { return reports_; }
  std::span<const CollectiveSpan> spans() const override { return spans_; }
  const std::string& not_finite() const override { return checks_.not_finite(); }
  std::span<const LargeBucket> large_buckets() const override { return checks_.large_buckets(); }

 protected:
  /// What the replicas keep of a bucket.
  struct Shares {
    std::vector<Slice> slices;         ///< by replica
    std::vector<std::int64_t> counts;  ///< their elements
    /// By replica, the elements that this one sends to the next one, and receives from the one
    /// before.
    std::vector<std::int64_t> sent, received;
  };
  Stage& stage() { return stage_; }
  tensor::Stream& stream() { return *stream_; }
  /// The group of all replicas; null if there is one alone.
  tensor::ProcessGroup* replicas() const { return groups_.replicas.group; }
  std::span<const Bucket> buckets() const { return buckets_; }
  /// By bucket; empty if each replica keeps all.
  std::span<const Shares> shares() const { return shares_; }
  /// The report of gathers of weights; null if each replica keeps all.
  CollectiveReport* gathers() { return shares_.empty() ? nullptr : &reports_.back(); }

 private:
  static std::vector<Shares> shares_of(const Stage& stage, std::span<const Bucket> buckets,
                                       int count, int self);
  int replica_before() const;
  /// What completes a bucket's gradients, in this order. Both uses of a tied matrix come first and
  /// the replicas last, so that a replica's gradient has the same bits however its pipeline is cut.
  enum class Part {
    none,
    checks,    ///< of what this rank has computed
    tied,      ///< the other use of a tied embedding, on another stage
    uses,      ///< both uses on this stage
    shards,    ///< parameters that all shards hold alike
    kv_heads,  ///< key and value heads that some shards share
    mirror,    ///< the copy of the same layers
    replicas,
    twins,  ///< the slice of the replica before
    done,
  };
  /// A bucket that has begun.
  struct UnderWay {
    const Bucket* bucket = nullptr;
    Part part = Part::none;
    std::unique_ptr<tensor::Work> work;
    CollectiveReport* report = nullptr;  ///< of the work; null: none
    double began_s = 0;
  };
  /// Enough to hide the time between a bucket's messages.
  static constexpr std::size_t kUnderWay = 4;

  UnderWay& under_way(std::size_t place) { return under_way_[place % kUnderWay]; }
  std::size_t number_of(const Bucket& bucket) const {
    return static_cast<std::size_t>(&bucket - buckets_.data());
  }
  tensor::Tensor gradients(const Bucket& bucket) const;
  tensor::Tensor on_wire(const Bucket& bucket) const;
  CollectiveReport* report_for(const GradientGroup& group);
  void go_on(std::size_t place);
  void begin_part(UnderWay& next);
  void end_part(UnderWay& ended);
  void all_reduce(UnderWay& next, const GradientGroup& group, const tensor::Tensor& x);
  void reduce_over_replicas(UnderWay& next);
  void forward_to_twin(UnderWay& next);
  void begin(UnderWay& next, const GradientGroup& group, const tensor::Tensor& x);
  tensor::Tensor part_of(int replica, const Bucket& bucket, const tensor::Tensor& x) const;
  tensor::Tensor own_part(const Bucket& bucket, const tensor::Tensor& x) const;
  void wait_for(UnderWay& oldest);

  const DataParallelSpec spec_;
  Stage& stage_;
  const GradientGroups groups_;
  const std::unique_ptr<tensor::Stream> stream_;
  const std::vector<Bucket> buckets_;
  const std::vector<Shares> shares_;
  BucketChecks checks_;
  const tensor::Buffer wire_;           // all gradients in bfloat16; empty for float32
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<int> adders_;             // by bucket: calls of added() that make it ready in a step
  std::size_t tied_bucket_ =
      0;  // the bucket that is exchanged with another stage; their number: none
  std::vector<CollectiveReport> reports_;  // fixed after construction, but for their numbers

  std::vector<CollectiveSpan> spans_;
  std::vector<int> missing_;           // by bucket: calls of added() still to come, or kReady
  std::vector<std::size_t> ready_;     // buckets in the order in which they begin
  std::size_t begun_ = 0, ended_ = 0;  // places in ready_
  std::array<UnderWay, kUnderWay> under_way_;
};

}  // namespace troupe::stages
