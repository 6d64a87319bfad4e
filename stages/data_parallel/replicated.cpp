#include "stages/data_parallel/replicated.h"

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

Replicated::Replicated(const DataParallelSpec& spec, Stage& stage, GradientGroups groups,
                       tensor::Device& device)
    : spec_(spec),
      stage_(stage),
      groups_(std::move(groups)),
      stream_(device.make_stream()),
      buckets_(buckets_of(stage, spec.buckets)),
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
  ready_.reserve(buckets_.size());
  spans_.reserve(buckets_.size() * reports_.size());
  begin_step();
}

Replicated::~Replicated() {
  for (UnderWay& left : under_way_) left.work.reset();
  try {
    stream_->synchronize();  // out of the gradients
  } catch (const Error&) {
    // The device has failed, and runs nothing more.
  }
}

void Replicated::begin_step() {
  for (UnderWay& left : under_way_) left = {};
  missing_ = adders_;
  ready_.clear();
  spans_.clear();
  begun_ = ended_ = 0;
  checks_.begin_step();
  for (CollectiveReport& report : reports_) {
    report.count = 0;
    report.bytes = 0;
    report.time_s = report.exposed_s = 0;
  }
}

/// Buckets begin in the order in which they get ready, which the plan decides, so that it is the
/// same on all replicas and shards. A mirrored rank runs another plan: there, all begin at the end.
/// So does the bucket with a tied matrix whose other use another stage has: it would keep those
/// behind it waiting until that stage is as far.
void Replicated::added(std::span<const int> parameters, Microbatch microbatch, tensor::Event& ran) {
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

void Replicated::progress() {
  for (std::size_t place = ended_; place < begun_; ++place) go_on(place);
  while (begun_ < ready_.size()) {
    UnderWay& next = under_way(begun_);
    if (begun_ >= kUnderWay && next.part != Part::done) return;
    // The work of the bucket before is given back only now, so that every step has as many.
    next = {.bucket = &buckets_[ready_[begun_]], .work = nullptr};
    go_on(begun_++);
  }
}

void Replicated::finish() {
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
void Replicated::go_on(std::size_t place) {
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

void Replicated::begin_part(UnderWay& now) {
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
    case Part::none:
    case Part::done:
      return;
  }
}

void Replicated::reduce_over_replicas(UnderWay& now) {
  const Tensor whole = gradients(*now.bucket);
  if (!wire_.data()) return all_reduce(now, groups_.replicas, whole);
  const Tensor wire = on_wire(*now.bucket);
  stream_->device().ops().copy(*stream_, whole, wire);
  all_reduce(now, groups_.replicas, wire);
}

void Replicated::all_reduce(UnderWay& now, const GradientGroup& group, const Tensor& x) {
  now.report = report_for(group);
  now.began_s = now_s();
  now.work = group.group->all_reduce(*stream_, x);
  ++now.report->count;
  now.report->bytes += static_cast<std::int64_t>(x.num_bytes());
}

void Replicated::end_part(UnderWay& now) {
  now.work->wait(*stream_);
  if (CollectiveReport* const report = std::exchange(now.report, nullptr)) {
    spans_.push_back({.of = report,
                      .bucket = static_cast<int>(number_of(*now.bucket)),
                      .begin_s = now.began_s,
                      .end_s = std::max(now.began_s, now.work->finished_s())});
    report->time_s += spans_.back().end_s - now.began_s;
  }
  if (now.part == Part::replicas && wire_.data())
    stream_->device().ops().copy(*stream_, on_wire(*now.bucket), gradients(*now.bucket));
  if (now.part != Part::replicas) now.work.reset();
}

void Replicated::wait_for(UnderWay& oldest) {
  const double begin_s = now_s();
  oldest.work->wait();
  if (oldest.report) oldest.report->exposed_s += now_s() - begin_s;
}

Tensor Replicated::gradients(const Bucket& bucket) const {
  return {stage_.gradients().as<float>() + bucket.begin, DType::f32, {bucket.size()}};
}

Tensor Replicated::on_wire(const Bucket& bucket) const {
  return wire_.view(spec_.wire, {bucket.size()},
                    static_cast<std::size_t>(bucket.begin) * tensor::size_of(spec_.wire));
}

CollectiveReport* Replicated::report_for(const GradientGroup& group) {
  return &*std::ranges::find(reports_, group.name, &CollectiveReport::group);
}

// --- making one

std::unique_ptr<DataParallel> make_replicated(const DataParallelSpec& spec, Stage& stage,
                                              GradientGroups groups, tensor::Device& device) {
  return std::make_unique<Replicated>(spec, stage, std::move(groups), device);
}

std::int64_t replicated_bytes(const DataParallelSpec& spec, const StageSpec& stage, int replicas) {
  const ParameterLayout layout = lay_out_parameters(stage);
  return (replicas > 1 ? wire_bytes(spec, layout.size) : 0) +
         BucketChecks::bytes(spec, layout.entries.size());
}

}  // namespace troupe::stages
