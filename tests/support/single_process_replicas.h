#pragma once

#include <barrier>
#include <cmath>
#include <memory>
#include <vector>

#include "stages/replicas/data_parallel.h"
#include "stages/stage/gradient_pieces.h"
#include "tensor/values/dtype.h"
#include "tests/support/guarded_memory.h"

namespace troupe::test {

/// What data parallelism means, without buckets under way, groups or devices: replicas are threads
/// of one process that read each other's gradients when all have finished, and each other's weights
/// when all have updated them. Plain loops.
class SingleProcessReplica final : public stages::DataParallel {
 public:
  /// A parameter's gradients that this replica adds to the others', by reduction in the step.
  using Reductions = std::vector<std::vector<float>>;
  /// Where the replicas meet.
  struct Meeting {
    explicit Meeting(int replicas)
        : here(replicas),
          gradients(static_cast<std::size_t>(replicas)),
          stages(static_cast<std::size_t>(replicas)) {}
    std::barrier<> here;
    std::vector<std::vector<Reductions>> gradients;  // by replica and parameter
    std::vector<stages::Stage*> stages;              // by replica
  };

  SingleProcessReplica(std::shared_ptr<Meeting> meeting, int replica,
                       const stages::DataParallelSpec& spec, stages::Stage& stage)
      : meeting_(std::move(meeting)), replica_(replica), spec_(spec), stage_(stage) {
    std::vector<std::int64_t> offsets;
    for (const auto& parameter : stage.parameters()) offsets.push_back(parameter.offset);
    for (const stages::StateBucket& bucket : stage.buckets()) buckets_.push_back(bucket.range);
    if (buckets_.empty())
      buckets_ = stages::cut_into_buckets(offsets, stage.gradients().num_elements(), spec.buckets);
    meeting_->stages[own()] = &stage;
    meeting_->here.arrive_and_wait();
  }
  ~SingleProcessReplica() override { meeting_->here.arrive_and_wait(); }

  std::int64_t allocated() const override { return 0; }
  void begin_step() override {
    meeting_->gradients[own()].assign(stage_.parameters().size(), {});
    not_finite_.clear();
    large_buckets_.clear();
  }
  void expect(const stages::UnitOrder&) override {}
  void added(const stages::NodeEffects& node, stages::Microbatch, tensor::Event&) override {
    if (!spec_.divides_gradients()) return;
    for (const int parameter : node.gradients) take(static_cast<std::size_t>(parameter));
  }
  void progress() override {}
  void finish() override {
    if (!spec_.divides_gradients())
      for (std::size_t i = 0; i < stage_.parameters().size(); ++i) take(i);
    check();
    meeting_->here.arrive_and_wait();
    sums_.clear();
    for (std::size_t i = 0; i < stage_.parameters().size(); ++i) sums_.push_back(sum_of(i));
    meeting_->here.arrive_and_wait();
    for (std::size_t i = 0; i < stage_.parameters().size(); ++i) put(i);
  }
  void squared_norms(std::span<double> out) override {
    std::ranges::fill(out, 0.0);
    for (const stages::GradientPiece& piece : stages::cut_into_pieces(stage_.parameters())) {
      const auto i = static_cast<std::size_t>(piece.parameter);
      const std::int64_t begin = piece.begin - stage_.parameters()[i].offset;
      double sum = 0;
      for (std::int64_t k = begin; k < begin + piece.end - piece.begin; ++k) {
        const double x = sums_[i][static_cast<std::size_t>(k)];
        sum += x * x;
      }
      out[i] += sum;
    }
  }
  void apply(const tensor::AdamWStep& step) override { stage_.apply(step); }
  void share_weights() override {
    meeting_->here.arrive_and_wait();
    if (stage_.buckets().empty() || !stage_.weights()) return;
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      gather(b, stage_.buckets()[b].forward_weights);
    stage_.weights_gathered();
  }
  void complete_weights() override {}
  const tensor::Work* awaited(stages::Pass, const stages::NodeEffects&) override { return nullptr; }
  double open(stages::Pass pass, const stages::NodeEffects& node) override {
    const bool is_forward = pass == stages::Pass::forward || !spec_.reshards;
    for (const int bucket : node.reads) {
      const auto b = static_cast<std::size_t>(bucket);
      const stages::StateBucket& of = stage_.buckets()[b];
      gather(b, is_forward ? of.forward_weights : of.backward_weights);
      stage_.pack(bucket, is_forward ? stages::Pass::forward : stages::Pass::backward);
    }
    return 0;
  }
  std::span<const stages::CollectiveReport> collectives() const override { return {}; }
  std::span<const stages::CollectiveSpan> spans() const override { return {}; }
  const std::string& not_finite() const override { return not_finite_; }
  std::span<const stages::LargeBucket> large_buckets() const override { return large_buckets_; }

 private:
  std::size_t own() const { return static_cast<std::size_t>(replica_); }
  float travelled(float x) const {
    return spec_.wire == tensor::DType::bf16 ? tensor::to_float(tensor::to_bfloat16(x)) : x;
  }
  /// Keeps this replica's gradient of a parameter for a reduction.
  void take(std::size_t parameter) {
    const tensor::Tensor x = opened(stage_.parameters()[parameter].gradient);
    meeting_->gradients[own()][parameter].emplace_back(x.as<float>(),
                                                       x.as<float>() + x.num_elements());
  }
  std::vector<float> sum_of(std::size_t parameter) const {
    const auto size =
        static_cast<std::size_t>(stage_.parameters()[parameter].gradient.num_elements());
    std::vector<float> total(size);
    for (std::size_t m = 0; m < meeting_->gradients[own()][parameter].size(); ++m)
      for (std::size_t i = 0; i < size; ++i) {
        const auto of = [&](std::size_t replica) {
          return travelled(meeting_->gradients[replica][parameter][m][i]);
        };
        float sum = of(0);
        for (std::size_t replica = 1; replica < meeting_->gradients.size(); ++replica)
          sum += of(replica);
        total[i] = m == 0 ? travelled(sum) : total[i] + travelled(sum);
      }
    return total;
  }
  /// Writes a parameter's sum where it is kept.
  void put(std::size_t number) const {
    const stages::Parameter& parameter = stage_.parameters()[number];
    const float* const sum = sums_[number].data();
    const auto write = [](const tensor::Tensor& of, const float* from) {
      if (of) std::copy_n(from, of.num_elements(), opened(of).as<float>());
    };
    if (!spec_.divides_gradients()) return write(parameter.gradient, sum);
    write(parameter.kept_gradient, sum + parameter.first_kept_row());
    if (parameter.twin_slice < 0) return;
    const auto twin = static_cast<std::size_t>(parameter.twin_slice);
    write(parameter.twin_gradient, sum + parameter.row_cuts[twin]);
  }
  /// Puts the slices of all replicas together.
  void gather(std::size_t bucket, const tensor::Tensor& whole) const {
    float* next = opened(whole).as<float>();
    for (const stages::Stage* const other : meeting_->stages) {
      const tensor::Tensor kept = opened(other->buckets()[bucket].kept_weights);
      if (kept.as<float>() != next) std::copy_n(kept.as<float>(), kept.num_elements(), next);
      next += kept.num_elements();
    }
  }
  void check() {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const auto first = static_cast<std::size_t>(buckets_[b].parameters.first);
      for (std::size_t m = 0; m < meeting_->gradients[own()][first].size(); ++m) check(b, m);
    }
  }
  void check(std::size_t bucket, std::size_t reduction) {
    double squares = 0;
    for (int i = buckets_[bucket].parameters.first; i < buckets_[bucket].parameters.end; ++i) {
      const auto number = static_cast<std::size_t>(i);
      for (const double value : meeting_->gradients[own()][number][reduction]) {
        squares += value * value;
        if (spec_.checks_finite && !std::isfinite(value) && not_finite_.empty())
          not_finite_ = "the gradient of " + stage_.parameters()[number].name + ", in bucket " +
                        std::to_string(bucket) + ", is not finite before it is summed";
      }
    }
    if (spec_.large_norm > 0 && !(std::sqrt(squares) <= spec_.large_norm))
      large_buckets_.push_back({.bucket = static_cast<int>(bucket), .norm = std::sqrt(squares)});
  }

  const std::shared_ptr<Meeting> meeting_;
  const int replica_;
  const stages::DataParallelSpec spec_;
  stages::Stage& stage_;
  std::vector<stages::Bucket> buckets_;
  std::vector<std::vector<float>> sums_;  // of all replicas, by parameter
  std::string not_finite_;
  std::vector<stages::LargeBucket> large_buckets_;
};

}  // namespace troupe::test
