#include "stages/data_parallel/bucket_reduction.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "stages/parameters.h"
#include "tensor/error.h"
#include "tensor/ops.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

/// In place of the calls that a bucket misses: it is in the row of those that begin.
constexpr int kReady = -1;

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<Bucket> buckets_of(const Stage& stage, const BucketRule& rule) {
  const Tensor all = stage.gradients();
  std::vector<std::int64_t> offsets;
  for (const Parameter& parameter : stage.parameters())
    offsets.push_back(parameter.gradient.as<float>() - all.as<float>());
  return cut_into_buckets(offsets, all.num_elements(), rule);
}

/// How many replicas divide the state.
int num_slices(const DataParallelSpec& spec, const GradientGroups& groups) {
  if (spec.division == StateDivision::none || !groups.replicas.group) return 1;
  return groups.replicas.group->size();
}

std::int64_t wire_bytes(const DataParallelSpec& spec, std::int64_t elements) {
  if (spec.wire == DType::f32) return 0;
  return elements * static_cast<std::int64_t>(tensor::size_of(spec.wire));
}

tensor::Buffer wire_memory(const DataParallelSpec& spec, const Stage& stage,
                           tensor::Device& device) {
  const std::int64_t bytes = wire_bytes(spec, stage.gradients().num_elements());
  if (bytes == 0) return {};
  return device.allocate(static_cast<std::size_t>(bytes), tensor::MemoryKind::device);
}

}  // namespace

std::vector<BucketReduction::Shares> BucketReduction::shares_of(const Stage& stage,
                                                                std::span<const Bucket> buckets,
                                                                int count, int self) {
  std::vector<Shares> all;
  if (count == 1) return all;
  const auto pieces = cut_into_pieces(stage.parameters(), stage.gradients());
  for (const Bucket& bucket : buckets) {
    Shares& shares = all.emplace_back();
    shares.slices = cut_into_slices(bucket, pieces, count);
    for (const Slice& slice : shares.slices) shares.counts.push_back(slice.size());
    const auto own = static_cast<std::size_t>(self), n = static_cast<std::size_t>(count);
    shares.sent.resize(n);
    shares.received.resize(n);
    shares.sent[(own + 1) % n] = shares.counts[own];
    shares.received[(own + n - 1) % n] = shares.counts[(own + n - 1) % n];
  }
  return all;
}

BucketReduction::BucketReduction(const DataParallelSpec& spec, Stage& stage, GradientGroups groups,
                                 tensor::Device& device)
    : spec_(spec),
      stage_(stage),
      groups_(std::move(groups)),
      stream_(device.make_stream()),
      buckets_(buckets_of(stage, spec.buckets)),
      shares_(shares_of(stage, buckets_, num_slices(spec, groups_),
                        groups_.replicas.group ? groups_.replicas.group->member() : 0)),
      checks_(spec, stage, buckets_, device),
      wire_(groups_.replicas.group ? wire_memory(spec, stage, device) : tensor::Buffer{}),
      bucket_of_(stage.parameters().size()),
      adders_(buckets_.size()),
      tied_bucket_(buckets_.size()) {
  const auto parameters = stage.parameters();
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    for (int i = buckets_[b].parameters.first; i < buckets_[b].parameters.end; ++i) {
      bucket_of_[static_cast<std::size_t>(i)] = b;
      const Tensor& gradient = parameters[static_cast<std::size_t>(i)].gradient;
      if (groups_.tied.group && gradient.data == stage.tied_gradient().data) tied_bucket_ = b;
    }
  for (int chunk = 0; chunk < stage.num_chunks(); ++chunk)
    for (const NodeEnd& node : stage.nodes(chunk, Pass::weight_gradient))
      for (const int i : node.gradients) ++adders_[bucket_of_[static_cast<std::size_t>(i)]];
  for (const GradientGroup* group : {&groups_.tied, &groups_.mirror, &groups_.replicas})
    if (group->group) reports_.push_back({.group = group->name, .operation = "all-reduce"});
  if (!shares_.empty()) {
    reports_.back().operation = "reduce-scatter";
    if (groups_.twins.group)
      reports_.push_back({.group = groups_.twins.name, .operation = "all-to-all"});
    reports_.push_back({.group = groups_.replicas.name, .operation = "all-gather"});
  }
  ready_.reserve(buckets_.size());
  spans_.reserve(buckets_.size() * reports_.size());
  begin_step();
}

BucketReduction::~BucketReduction() {
  for (UnderWay& left : under_way_) left.work.reset();
  try {
    stream_->synchronize();  // out of the gradients
  } catch (const Error&) {
    // The device has failed, and runs nothing more.
  }
}

void BucketReduction::begin_step() {
  for (UnderWay& left : under_way_) left = {};
  missing_ = adders_;
  ready_.clear();
  spans_.clear();
  begun_ = ended_ = 0;
  checks_.begin_step();
  for (CollectiveReport& report : reports_)
    if (&report != gathers()) report.clear();
}

/// Buckets begin in the order in which they get ready, which the plan decides, so that it is the
/// same on all replicas and shards. A mirrored rank runs another plan: there, all begin at the end.
/// So does the bucket with a tied matrix whose other use another stage has: it would keep those
/// behind it waiting until that stage is as far.
void BucketReduction::added(std::span<const int> parameters, Microbatch microbatch,
                            tensor::Event& ran) {
  if (microbatch == Microbatch::earlier || !spec_.overlaps || groups_.mirror.group) return;
  const std::size_t before = ready_.size();
  for (const int i : parameters) {
    const std::size_t bucket = bucket_of_[static_cast<std::size_t>(i)];
    if (--missing_[bucket] > 0 || bucket == tied_bucket_) continue;
    missing_[bucket] = kReady;
    ready_.push_back(bucket);
  }
  if (ready_.size() > before) ran.wait(*stream_);
}

void BucketReduction::progress() {
  for (std::size_t place = ended_; place < begun_; ++place) go_on(place);
  while (begun_ < ready_.size()) {
    UnderWay& next = under_way(begun_);
    if (begun_ >= kUnderWay && next.part != Part::done) return;
    // The work of the bucket before is given back only now, so that every step has as many.
    next = {.bucket = &buckets_[ready_[begun_]], .work = nullptr};
    go_on(begun_++);
  }
}

void BucketReduction::finish() {
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (missing_[b] != kReady) ready_.push_back(b);
  for (progress(); ended_ < ready_.size(); progress()) wait_for(under_way(ended_));
  stream_->synchronize();
  for (UnderWay& last : under_way_) last.work.reset();
  checks_.read();
}

// --- a bucket's parts

/// Begins as many parts as can. Collectives of a group must begin in one order on all members:
/// a bucket does not overtake the one before it.
void BucketReduction::go_on(std::size_t place) {
  UnderWay& now = under_way(place);
  while (now.part != Part::done) {
    if (now.work) {
      if (!now.work->done()) return;
      end_part(now);
    }
    const auto next = static_cast<Part>(static_cast<int>(now.part) + 1);
    if (place > ended_ && under_way(place - 1).part < next) return;
    now.part = next;
    begin_part(now);
  }
  while (ended_ < begun_ && under_way(ended_).part == Part::done) ++ended_;
}

void BucketReduction::begin_part(UnderWay& now) {
  const Bucket& bucket = *now.bucket;
  switch (now.part) {
    case Part::checks:
      return checks_.look_at(bucket, *stream_);
    case Part::tied:
      if (number_of(bucket) == tied_bucket_) all_reduce(now, groups_.tied, stage_.tied_gradient());
      return;
    case Part::uses:
      return stage_.add_tied_uses(*stream_, bucket.parameters);
    case Part::shards:
      now.work = stage_.sum_over_shards(*stream_, bucket.parameters, Sharers::all);
      return;
    case Part::kv_heads:
      now.work = stage_.sum_over_shards(*stream_, bucket.parameters, Sharers::kv_head);
      return;
    case Part::mirror:
      if (groups_.mirror.group) all_reduce(now, groups_.mirror, gradients(bucket));
      return;
    case Part::replicas:
      if (groups_.replicas.group) reduce_over_replicas(now);
      return;
    case Part::twins:
      if (groups_.twins.group) forward_to_twin(now);
      return;
    case Part::none:
    case Part::done:
      return;
  }
}

void BucketReduction::reduce_over_replicas(UnderWay& now) {
  Tensor x = gradients(*now.bucket);
  if (wire_.data()) {
    x = on_wire(*now.bucket);
    stream_->device().ops().copy(*stream_, gradients(*now.bucket), x);
  }
  if (shares_.empty()) return all_reduce(now, groups_.replicas, x);
  begin(now, groups_.replicas, x);
  now.work = groups_.replicas.group->reduce_scatter_uneven(*stream_, x, own_part(*now.bucket, x),
                                                           shares_[number_of(*now.bucket)].counts);
}

void BucketReduction::forward_to_twin(UnderWay& now) {
  const Bucket& bucket = *now.bucket;
  const Shares& shares = shares_[number_of(bucket)];
  const Tensor all = gradients(bucket), own = own_part(bucket, all);
  begin(now, groups_.twins, own);
  now.work = groups_.twins.group->all_to_all_uneven(
      *stream_, own, part_of(replica_before(), bucket, all), shares.sent, shares.received);
}

void BucketReduction::all_reduce(UnderWay& now, const GradientGroup& group, const Tensor& x) {
  begin(now, group, x);
  now.work = group.group->all_reduce(*stream_, x);
}

void BucketReduction::begin(UnderWay& now, const GradientGroup& group, const Tensor& x) {
  now.report = report_for(group);
  now.began_s = now_s();
  ++now.report->count;
  now.report->bytes += static_cast<std::int64_t>(x.num_bytes());
}

void BucketReduction::end_part(UnderWay& now) {
  now.work->wait(*stream_);
  if (CollectiveReport* const report = std::exchange(now.report, nullptr)) {
    spans_.push_back({.of = report,
                      .bucket = static_cast<int>(number_of(*now.bucket)),
                      .begin_s = now.began_s,
                      .end_s = std::max(now.began_s, now.work->finished_s())});
    report->time_s += spans_.back().end_s - now.began_s;
  }
  if (now.part == Part::replicas && wire_.data())
    stream_->device().ops().copy(*stream_, own_part(*now.bucket, on_wire(*now.bucket)),
                                 own_part(*now.bucket, gradients(*now.bucket)));
  const Part last = groups_.twins.group ? Part::twins : Part::replicas;
  if (now.part != last) now.work.reset();
}

void BucketReduction::wait_for(UnderWay& oldest) {
  const double begin_s = now_s();
  oldest.work->wait();
  if (oldest.report) oldest.report->exposed_s += now_s() - begin_s;
}

/// This replica's slice of a tensor of the whole bucket.
Tensor BucketReduction::own_part(const Bucket& bucket, const Tensor& x) const {
  if (shares_.empty()) return x;
  return part_of(groups_.replicas.group->member(), bucket, x);
}

int BucketReduction::replica_before() const {
  const int count = groups_.replicas.group->size();
  return (groups_.replicas.group->member() + count - 1) % count;
}

Tensor BucketReduction::part_of(int replica, const Bucket& bucket, const Tensor& x) const {
  const Slice& slice = shares_[number_of(bucket)].slices[static_cast<std::size_t>(replica)];
  const auto skipped = static_cast<std::size_t>(slice.begin - bucket.begin);
  return {x.as<std::byte>() + skipped * tensor::size_of(x.dtype), x.dtype, {slice.size()}};
}

Tensor BucketReduction::gradients(const Bucket& bucket) const {
  return {stage_.gradients().as<float>() + bucket.begin, DType::f32, {bucket.size()}};
}

Tensor BucketReduction::on_wire(const Bucket& bucket) const {
  return wire_.view(spec_.wire, {bucket.size()},
                    static_cast<std::size_t>(bucket.begin) * tensor::size_of(spec_.wire));
}

CollectiveReport* BucketReduction::report_for(const GradientGroup& group) {
  return &*std::ranges::find(reports_, group.name, &CollectiveReport::group);
}

std::int64_t BucketReduction::bytes(const DataParallelSpec& spec, const StageSpec& stage,
                                    int replicas) {
  const ParameterLayout layout = lay_out_parameters(stage);
  return (replicas > 1 ? wire_bytes(spec, layout.size) : 0) +
         BucketChecks::bytes(spec, layout.entries.size());
}

}  // namespace troupe::stages
