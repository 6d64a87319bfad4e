#include <algorithm>
#include <vector>

#include "stages/replicas/weight_exchange.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

class GatheredWeights final : public WeightExchange {
 public:
  GatheredWeights(const DataParallelSpec& spec, Stage& stage, std::span<const SharedBucket> buckets,
                  const GradientGroups& groups, tensor::Device& device, CollectiveLog& log)
      : stage_(stage),
        buckets_(buckets),
        replicas_(groups.replicas.group),
        experts_(groups.experts.group),
        overlaps_(spec.overlaps_gather),
        stream_(device.make_stream()),
        report_(log.add(groups.replicas.name, "all-gather")),
        expert_report_(experts_ ? &log.add(groups.experts.name, "all-gather") : nullptr) {
    under_way_.reserve(buckets.size());
  }
  ~GatheredWeights() override {
    under_way_.clear();
    leave(*stream_);
  }

  /// Gathers each bucket's weights into their places. Padding has the same zeros everywhere.
  void share() override {
    report_.clear();
    if (expert_report_) expert_report_->clear();
    for (const SharedBucket& bucket : buckets_) {
      if (bucket.memory.is_head_use) continue;
      const bool is_expert = bucket.memory.is_expert;
      tensor::ProcessGroup* const group = is_expert ? experts_ : replicas_;
      if (!group) continue;  // this replica alone holds these experts
      const tensor::Tensor& whole = bucket.memory.forward_weights;
      CollectiveReport& report = is_expert ? *expert_report_ : report_;
      under_way_.push_back(
          {.work = group->all_gather(*stream_, bucket.memory.kept_weights, whole, bucket.counts),
           .report = &report,
           .began_s = now_s()});
      report.add(whole);
    }
    if (!overlaps_) complete();
  }

  void complete() override {
    if (under_way_.empty()) return;
    for (const Gather& gather : under_way_) {
      const double begin_s = now_s();
      gather.work->wait();
      gather.report->exposed_s += now_s() - begin_s;
      gather.report->time_s += std::max(0.0, gather.work->finished_s() - gather.began_s);
    }
    under_way_.clear();
    stage_.weights_gathered();
  }

 private:
  Stage& stage_;
  const std::span<const SharedBucket> buckets_;
  tensor::ProcessGroup *const replicas_, *const experts_;
  const bool overlaps_;
  const std::unique_ptr<tensor::Stream> stream_;
  CollectiveReport& report_;
  CollectiveReport* const expert_report_;  // null: no replica shares its experts with another
  struct Gather {
    std::unique_ptr<tensor::Work> work;
    CollectiveReport* report = nullptr;
    double began_s = 0;
  };
  std::vector<Gather> under_way_;  // by bucket, while weights are not whole
};

}  // namespace

std::unique_ptr<WeightExchange> make_gathered_weights(const DataParallelSpec& spec, Stage& stage,
                                                      std::span<const SharedBucket> buckets,
                                                      const GradientGroups& groups,
                                                      tensor::Device& device, CollectiveLog& log) {
  return std::make_unique<GatheredWeights>(spec, stage, buckets, groups, device, log);
}

}  // namespace troupe::stages
