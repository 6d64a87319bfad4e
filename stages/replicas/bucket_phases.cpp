#include <utility>

#include "stages/replicas/bucket_reduction.h"
#include "tensor/device/ops.h"

// What each phase of a bucket does.

namespace troupe::stages {

using tensor::Tensor;

void BucketReduction::begin_phase(UnderWay& now) {
  const SharedBucket& bucket = bucket_of(now);
  const ParameterRange& parameters = bucket.range().parameters;
  const Tensor& x = is_divided_ ? bucket.memory.kept_gradient : bucket.memory.gradient;
  switch (now.phase()) {
    case Phase::checks:
      return checks_.look_at(now.what.bucket, num_reductions_[now.what.bucket], *stream_);
    case Phase::tied:
      if (now.what.bucket == tied_bucket_) add_other_use(now);
      return;
    case Phase::uses:
      return stage_.add_tied_uses(*stream_, parameters);
    case Phase::shards:
      if (!bucket.memory.is_head_use)
        now.work = stage_.sum_over_shards(*stream_, parameters, Sharers::all);
      return;
    case Phase::kv_heads:
      if (!bucket.memory.is_head_use)
        now.work = stage_.sum_over_shards(*stream_, parameters, Sharers::kv_head);
      return;
    case Phase::mirror:
      if (mirror_.group) all_reduce(now, mirror_, x);
      return;
    case Phase::replicas:
      if (replicas_.group) reduce_over_replicas(now);
      return;
    case Phase::instances:
      if (instances_.group) all_reduce(now, instances_, bucket.memory.kept_gradient);
      return;
    case Phase::twins:
      if (twins_.group) forward_to_twin(now);
      return;
  }
}

void BucketReduction::add_other_use(UnderWay& now) {
  if (!tied_sums_) return all_reduce(now, tied_, stage_.tied_gradient());
  begin(now, tied_, tied_sums_->sent());
  now.work = tied_sums_->begin(*stream_, *tied_.group, kept_of_tied_);
}

void BucketReduction::reduce_over_replicas(UnderWay& now) {
  const SharedBucket& bucket = bucket_of(now);
  const Exchange& with = bucket.memory.is_expert ? experts_ : replicas_;
  if (!with.group) {  // no other replica holds these experts
    if (is_divided_) add_to_kept(now.what.bucket);
    return;
  }
  Tensor x = bucket.memory.gradient;
  if (wire_.data()) {
    x = on_wire(bucket);
    stream_->device().ops().copy(*stream_, bucket.memory.gradient, x);
  }
  if (bucket.slices.empty()) return all_reduce(now, with, x);
  begin(now, with, x);
  now.work = with.group->reduce_scatter(*stream_, x, own_slice(bucket, x), tensor::Reduction::sum,
                                        bucket.counts);
}

void BucketReduction::forward_to_twin(UnderWay& now) {
  const SharedBucket& bucket = bucket_of(now);
  const Tensor& own = bucket.memory.kept_gradient;
  begin(now, twins_, own);
  now.work = twins_.group->all_to_all(*stream_, own, bucket.memory.twin_gradient, bucket.sent,
                                      bucket.received);
}

void BucketReduction::all_reduce(UnderWay& now, const Exchange& with, const Tensor& x) {
  begin(now, with, x);
  now.work = with.group->all_reduce(*stream_, x);
}

void BucketReduction::begin(UnderWay& now, const Exchange& with, const Tensor& x) {
  now.report = with.report;
  now.began_s = now_s();
  with.report->add(x);
}

void BucketReduction::end_phase(UnderWay& now) {
  now.work->wait(*stream_);
  CollectiveReport* const report = std::exchange(now.report, nullptr);
  const auto number = static_cast<int>(now.what.bucket);
  const bool is_done = now.work->blocks_host();
  if (report && is_done) log_.add_span(*report, number, now.began_s, *now.work);
  if (now.phase() == Phase::tied && tied_sums_) tied_sums_->add(*stream_, kept_of_tied_);
  if (now.phase() == Phase::tied && gives_sum_away_)
    stream_->device().ops().fill_zero(*stream_, stage_.tied_gradient());
  if (now.phase() == Phase::replicas) {
    const SharedBucket& bucket = bucket_of(now);
    if (wire_.data())
      stream_->device().ops().copy(*stream_, own_slice(bucket, on_wire(bucket)),
                                   own_slice(bucket, bucket.memory.gradient));
    if (is_divided_) add_to_kept(now.what.bucket);
  }
  if (report && !is_done)
    untimed_.push_back({report, number, now.began_s, std::move(now.work)});
  else
    now.ended = std::move(now.work);
}

/// Adds a microbatch's sum to those before.
void BucketReduction::add_to_kept(std::size_t number) {
  const SharedBucket& bucket = buckets_[number];
  const Tensor sum = own_slice(bucket, bucket.memory.gradient);
  const bool is_first = num_reductions_[number]++ == 0;
  if (sum.num_elements() == 0) return;
  tensor::Ops& ops = stream_->device().ops();
  is_first ? ops.copy(*stream_, sum, bucket.memory.kept_gradient)
           : ops.accumulate(*stream_, sum, bucket.memory.kept_gradient);
}

double BucketReduction::wait_for(UnderWay& oldest) {
  const double begin_s = now_s();
  oldest.work->wait();
  const double waited_s = now_s() - begin_s;
  if (oldest.report) oldest.report->exposed_s += waited_s;
  return waited_s;
}

/// This replica's slice of a tensor of the whole bucket.
Tensor BucketReduction::own_slice(const SharedBucket& bucket, const Tensor& x) const {
  if (bucket.slices.empty()) return x;
  const Slice& slice = bucket.slices[static_cast<std::size_t>(bucket.own)];
  return elements_of(x, slice.begin - bucket.range().begin, slice.size());
}

}  // namespace troupe::stages
