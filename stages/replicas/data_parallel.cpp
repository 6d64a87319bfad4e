#include "stages/replicas/data_parallel.h"

#include <algorithm>
#include <optional>

#include "stages/decoder/parameters/parameter_layout.h"
#include "stages/replicas/bucket_reduction.h"
#include "stages/replicas/expert_squares.h"
#include "stages/replicas/slice_norms.h"
#include "stages/replicas/weight_exchange.h"

namespace troupe::stages {
namespace {

std::vector<SharedBucket> divided_buckets(const DataParallelSpec& spec, const Stage& stage,
                                          const GradientGroups& groups) {
  if (stage.buckets().empty()) return {};
  return shared_buckets(spec, stage, groups);
}

/// DataParallel in every division of state: how gradients are reduced, how norms are summed, and
/// how weights come to all replicas, one beside the other.
class StageReplicas final : public DataParallel {
 public:
  StageReplicas(const DataParallelSpec& spec, Stage& stage, const GradientGroups& groups,
                tensor::Device& device)
      : stage_(stage),
        buckets_(divided_buckets(spec, stage, groups)),
        gradients_(spec, stage, groups, device, log_),
        stream_(device.make_stream()) {
    if (const int ep = expert_sharing(stage, groups); ep > 1)
      expert_squares_.emplace(stage, *groups.replicas.group, ep, device);
    if (buckets_.empty()) return;
    norms_.emplace(stage, buckets_, groups, device);
    const auto make = stage.weights() ? make_gathered_weights : make_unit_weights;
    weights_ = make(spec, stage, buckets_, groups, device, log_);
    stage.set_gate(this);
  }
  ~StageReplicas() override { stage_.set_gate(nullptr); }

  std::int64_t allocated() const override {
    return gradients_.allocated() + (norms_ ? norms_->allocated() : 0) +
           (expert_squares_ ? expert_squares_->allocated() : 0);
  }
  void begin_step() override {
    log_.clear_spans();
    gradients_.begin_step();
    if (weights_) weights_->begin_step();
  }
  void expect(const UnitOrder& order) override {
    if (weights_) weights_->expect(order);
  }
  void added(const NodeEffects& node, Microbatch microbatch, tensor::Event& ran) override {
    gradients_.added(node, microbatch, ran);
  }
  void progress() override {
    gradients_.progress();
    if (weights_) weights_->progress();
  }
  void finish() override { gradients_.finish(); }
  void squared_norms(std::span<double> out) override {
    norms_ ? norms_->sum(*stream_, out) : stage_.squared_norms(out);
    if (expert_squares_) expert_squares_->add(*stream_, out);
  }
  void apply(const tensor::AdamWStep& step) override { stage_.apply(step); }
  void share_weights() override {
    if (weights_) weights_->share();
  }
  void complete_weights() override {
    if (weights_) weights_->complete();
  }
  const tensor::Work* awaited(Pass pass, const NodeEffects& node) override {
    if (const tensor::Work* const work = gradients_.awaited(node)) return work;
    return weights_ ? weights_->awaited(pass, node) : nullptr;
  }
  double open(Pass pass, const NodeEffects& node) override {
    const double waited_s = gradients_.open(node);
    return waited_s + (weights_ ? weights_->open(pass, node) : 0);
  }

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
  std::optional<SliceNorms> norms_;              // if gradients are complete in slices alone
  std::optional<ExpertSquares> expert_squares_;  // if the replicas share experts out
  std::unique_ptr<WeightExchange> weights_;      // null: every replica updates all
};

}  // namespace

std::unique_ptr<DataParallel> make_data_parallel(const DataParallelSpec& spec, Stage& stage,
                                                 const GradientGroups& groups,
                                                 tensor::Device& device) {
  return std::make_unique<StageReplicas>(spec, stage, groups, device);
}

std::int64_t data_parallel_bytes(const DataParallelSpec& spec, const StageSpec& stage,
                                 int replicas) {
  const StateSharding& state = stage.state;
  const ParameterLayout layout = lay_out_parameters(stage);
  const auto experts = std::ranges::count(layout.entries, true, &ParameterLayout::Entry::is_expert);
  return BucketReduction::bytes(spec, stage, replicas) +
         (state.count > 1 ? SliceNorms::bytes(layout.pieces.size()) : 0) +
         ExpertSquares::bytes(static_cast<std::size_t>(experts),
                              state.count > 1 ? state.count : replicas);
}

}  // namespace troupe::stages
