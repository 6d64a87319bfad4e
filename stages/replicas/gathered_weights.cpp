#include "stages/replicas/gathered_weights.h"

#include <algorithm>

#include "tensor/error.h"

namespace troupe::stages {

GatheredWeights::GatheredWeights(Stage& stage, std::span<const SharedBucket> buckets,
                                 const GradientGroup& replicas, bool overlaps,
                                 tensor::Device& device, CollectiveLog& log)
    : stage_(stage),
      buckets_(buckets),
      replicas_(*replicas.group),
      overlaps_(overlaps),
      stream_(device.make_stream()),
      report_(log.add(replicas.name, "all-gather")) {
  under_way_.reserve(buckets.size());
}

GatheredWeights::~GatheredWeights() {
  under_way_.clear();
  try {
    stream_->synchronize();  // out of the weights
  } catch (const Error&) {
    // The device has failed, and runs nothing more.
  }
}

/// Gathers each bucket's weights into their places. Padding has the same zeros everywhere.
void GatheredWeights::share() {
  report_.clear();
  for (const SharedBucket& bucket : buckets_) {
    if (bucket.memory.is_head_use) continue;
    const tensor::Tensor& whole = bucket.memory.forward_weights;
    under_way_.push_back(
        {.work = replicas_.all_gather(*stream_, bucket.memory.kept_weights, whole, bucket.counts),
         .began_s = now_s()});
    ++report_.count;
    report_.bytes += static_cast<std::int64_t>(whole.num_bytes());
  }
  if (!overlaps_) complete();
}

void GatheredWeights::complete() {
  if (under_way_.empty()) return;
  for (const Gather& gather : under_way_) {
    const double begin_s = now_s();
    gather.work->wait();
    report_.exposed_s += now_s() - begin_s;
    report_.time_s += std::max(0.0, gather.work->finished_s() - gather.began_s);
  }
  under_way_.clear();
  stage_.weights_changed();
}

}  // namespace troupe::stages
