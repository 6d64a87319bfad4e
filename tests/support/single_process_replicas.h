#pragma once

#include <barrier>
#include <cmath>
#include <memory>
#include <vector>

#include "stages/data_parallel/data_parallel.h"
#include "tensor/dtype.h"
#include "tests/support/guarded_memory.h"

namespace troupe::test {

/// What data parallelism means, without buckets under way, groups or devices: replicas are threads
/// of one process that read each other's gradients when all have finished. Plain loops.
class SingleProcessReplica final : public stages::DataParallel {
 public:
  /// Where the replicas meet.
  struct Meeting {
    explicit Meeting(int replicas)
        : here(replicas), gradients(static_cast<std::size_t>(replicas)) {}
    std::barrier<> here;
    std::vector<std::vector<float>> gradients;  // by replica, as they travel
  };

  SingleProcessReplica(std::shared_ptr<Meeting> meeting, int replica,
                       const stages::DataParallelSpec& spec, stages::Stage& stage)
      : meeting_(std::move(meeting)), replica_(replica), spec_(spec), stage_(stage) {
    const auto* const begin = stage.gradients().as<float>();
    std::vector<std::int64_t> offsets;
    for (const auto& parameter : stage.parameters())
      offsets.push_back(parameter.gradient.as<float>() - begin);
    buckets_ = stages::cut_into_buckets(offsets, stage.gradients().num_elements(), spec.buckets);
  }

  void begin_step() override {}
  void added(std::span<const int>, stages::Microbatch, tensor::Event&) override {}
  void progress() override {}
  void finish() override {
    check();
    const tensor::Tensor own = opened(stage_.gradients());
    auto& sent = meeting_->gradients[static_cast<std::size_t>(replica_)];
    sent.assign(own.as<float>(), own.as<float>() + own.num_elements());
    for (float& x : sent) x = travelled(x);
    meeting_->here.arrive_and_wait();
    for (std::int64_t i = 0; i < own.num_elements(); ++i) {
      float sum = meeting_->gradients.front()[static_cast<std::size_t>(i)];
      for (std::size_t r = 1; r < meeting_->gradients.size(); ++r)
        sum += meeting_->gradients[r][static_cast<std::size_t>(i)];
      own.as<float>()[i] = travelled(sum);
    }
    meeting_->here.arrive_and_wait();
  }
  void squared_norms(std::span<double> out) override { stage_.squared_norms(out); }
  void apply(const tensor::AdamWStep& step) override { stage_.apply(step); }
  void share_weights() override {}
  void complete_weights() override {}
  std::span<const stages::CollectiveReport> collectives() const override { return {}; }
  std::span<const stages::CollectiveSpan> spans() const override { return {}; }
  const std::string& not_finite() const override { return not_finite_; }
  std::span<const stages::LargeBucket> large_buckets() const override { return large_buckets_; }

 private:
  float travelled(float x) const {
    return spec_.wire == tensor::DType::bf16 ? tensor::to_float(tensor::to_bfloat16(x)) : x;
  }
  void check() {
    not_finite_.clear();
    large_buckets_.clear();
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      double squares = 0;
      for (int i = buckets_[b].parameters.first; i < buckets_[b].parameters.end; ++i) {
        const auto& parameter = stage_.parameters()[static_cast<std::size_t>(i)];
        const tensor::Tensor x = opened(parameter.gradient);
        for (std::int64_t k = 0; k < x.num_elements(); ++k) {
          const double value = x.as<float>()[k];
          squares += value * value;
          if (spec_.checks_finite && !std::isfinite(value) && not_finite_.empty())
            not_finite_ = "the gradient of " + parameter.name + ", in bucket " + std::to_string(b) +
                          ", is not finite before it is summed";
        }
      }
      if (spec_.large_norm > 0 && !(std::sqrt(squares) <= spec_.large_norm))
        large_buckets_.push_back({.bucket = static_cast<int>(b), .norm = std::sqrt(squares)});
    }
  }

  const std::shared_ptr<Meeting> meeting_;
  const int replica_;
  const stages::DataParallelSpec spec_;
  stages::Stage& stage_;
  std::vector<stages::Bucket> buckets_;
  std::string not_finite_;
  std::vector<stages::LargeBucket> large_buckets_;
};

}  // namespace troupe::test
