#include "stages/replicas/bucket_reduction.h"

#include <algorithm>
#include <utility>

#include "stages/decoder/parameters/parameter_layout.h"
#include "tensor/device/ops.h"
#include "tensor/errors/error.h"

namespace troupe::stages {

using tensor::DType;
using tensor::Tensor;

namespace {

/// In place of the calls that a bucket misses: it is in the row of those that begin.
constexpr int kReady = -1;

/// The elements that whole gradients take in memory, of all buckets or of their slots.
std::int64_t written_elements(const ParameterLayout& layout, const StageSpec& stage) {
  return stage.state.gradients ? layout.gradient_slots.size : layout.size;
}

std::int64_t wire_bytes(const DataParallelSpec& spec, std::int64_t elements) {
  if (spec.wire == DType::f32) return 0;
  return elements * static_cast<std::int64_t>(tensor::size_of(spec.wire));
}

const float* first_gradient(std::span<const SharedBucket> buckets) {
  const float* first = buckets.front().memory.gradient.as<float>();
  for (const SharedBucket& bucket : buckets)
    first = std::min<const float*>(first, bucket.memory.gradient.as<float>());
  return first;
}

tensor::Buffer wire_memory(const DataParallelSpec& spec, std::span<const SharedBucket> buckets,
                           tensor::Device& device) {
  std::int64_t elements = 0;
  for (const SharedBucket& bucket : buckets)
    elements = std::max(elements, bucket.memory.gradient.as<float>() + bucket.range().size() -
                                      first_gradient(buckets));
  const std::int64_t bytes = wire_bytes(spec, elements);
  if (bytes == 0) return {};
  return device.allocate(static_cast<std::size_t>(bytes), tensor::MemoryKind::device);
}

bool has_slices(const Stage& stage) {
  return !stage.buckets().empty();
}

/// The buckets that have gradients of their own.
std::vector<SharedBucket> with_gradients(std::vector<SharedBucket> buckets) {
  std::erase_if(buckets, [](const SharedBucket& bucket) { return !bucket.memory.gradient; });
  return buckets;
}

}  // namespace

bool BucketReduction::is_first(const Exchange& replicas, const Exchange& instances) {
  const auto leads = [](const Exchange& in) { return !in.group || in.group->member() == 0; };
  return leads(replicas) && leads(instances);
}

BucketReduction::BucketReduction(const DataParallelSpec& spec, Stage& stage,
                                 const GradientGroups& groups, tensor::Device& device,
                                 CollectiveLog& log)
    : spec_(spec),
      stage_(stage),
      log_(log),
      tied_(groups.tied, groups.tied_parts.empty() ? "all-reduce" : "all-to-all", log),
      mirror_(groups.mirror, "all-reduce", log),
      replicas_(groups.replicas, has_slices(stage) ? "reduce-scatter" : "all-reduce", log),
      experts_(groups.experts, has_slices(stage) ? "reduce-scatter" : "all-reduce", log),
      instances_(groups.instances, "all-reduce", log),
      twins_(has_slices(stage) ? Exchange(groups.twins, "all-to-all", log) : Exchange()),
      gives_sum_away_(groups.tied_sums_replicas && !is_first(replicas_, instances_)),
      is_divided_(!stage.gradients()),
      stream_(device.make_stream()),
      buckets_(with_gradients(shared_buckets(spec, stage, groups))),
      checks_(spec, stage, buckets_, device),
      wire_(replicas_.group ? wire_memory(spec, buckets_, device) : tensor::Buffer{}),
      bucket_of_(stage.parameters().size()),
      adders_(buckets_.size()),
      tied_bucket_(buckets_.size()),
      num_reductions_(buckets_.size()) {
  const auto parameters = stage.parameters();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const StateBucket& bucket = buckets_[b].memory;
    if (bucket.gradient_slot >= static_cast<int>(last_in_slot_.size())) {
      last_in_slot_.resize(static_cast<std::size_t>(bucket.gradient_slot) + 1);
      slot_is_free_.resize(last_in_slot_.size());
    }
    if (bucket.is_head_use) continue;
    for (int i = bucket.range.parameters.first; i < bucket.range.parameters.end; ++i) {
      bucket_of_[static_cast<std::size_t>(i)] = b;
      const Parameter& parameter = parameters[static_cast<std::size_t>(i)];
      const Tensor& whole = is_divided_ ? parameter.kept_gradient : parameter.gradient;
      if (!tied_.group || whole.data != stage.tied_gradient().data) continue;
      tied_bucket_ = b;
      kept_of_tied_ = is_divided_ ? stage.tied_gradient() : parameter.kept_gradient;
    }
  }
  if (!groups.tied_parts.empty())
    tied_sums_.emplace(groups.tied_parts, tied_.group->size(), device);
  for (auto& event : slot_is_free_) event = device.make_event();
  for (int chunk = 0; chunk < stage.num_chunks(); ++chunk)
    for (const NodeEffects& node : stage.nodes(chunk, Pass::weight_gradient)) {
      for (const int b : node.adds_to) ++adders_[static_cast<std::size_t>(b)];
      if (is_divided_) continue;
      for (const int i : node.gradients) ++adders_[bucket_of_[static_cast<std::size_t>(i)]];
    }
  begin_step();
}

BucketReduction::~BucketReduction() {
  for (UnderWay& left : under_way_) left = {};
  leave(*stream_);
}

void BucketReduction::begin_step() {
  for (UnderWay& left : under_way_) left = {};
  untimed_.clear();
  missing_ = adders_;
  std::ranges::fill(num_reductions_, 0);
  std::ranges::fill(last_in_slot_, 0);
  ready_.clear();
  begun_ = ended_ = 0;
  checks_.begin_step();
  for (const Exchange& with : {tied_, mirror_, replicas_, experts_, instances_, twins_})
    if (with.report) with.report->clear();
}

/// Buckets begin in the order in which they get ready, which the plan decides, so that it is the
/// same on all replicas and shards. Of whole gradients, those of a mirrored rank, which runs
/// another plan, all begin at the end. So does the bucket with a tied matrix whose other use
/// another stage has: it would keep those behind it waiting until that stage is as far.
void BucketReduction::added(const NodeEffects& node, Microbatch microbatch, tensor::Event& ran) {
  const std::size_t before = ready_.size();
  if (is_divided_) {
    for (const int b : node.adds_to) {
      const auto bucket = static_cast<std::size_t>(b);
      if (--missing_[bucket] > 0) continue;
      missing_[bucket] = adders_[bucket];
      make_ready(bucket);
    }
  } else if (microbatch == Microbatch::last && spec_.overlaps && !mirror_.group) {
    for (const int i : node.gradients) {
      const std::size_t bucket = bucket_of_[static_cast<std::size_t>(i)];
      if (--missing_[bucket] > 0 || bucket == tied_bucket_) continue;
      missing_[bucket] = kReady;
      make_ready(bucket);
    }
  }
  if (ready_.size() > before) ran.wait(*stream_);
}

void BucketReduction::make_ready(std::size_t bucket) {
  // Both uses of a tied matrix come first and the replicas last, so that a replica's gradient has
  // the same bits however its pipeline is cut.
  static constexpr Phase kWhole[]{Phase::checks,   Phase::tied,      Phase::uses,
                                  Phase::shards,   Phase::kv_heads,  Phase::mirror,
                                  Phase::replicas, Phase::instances, Phase::twins};
  // Of stages that cut a tied matrix otherwise, what each rank keeps of their sums is added.
  static constexpr Phase kWholeSums[]{Phase::checks,    Phase::uses,   Phase::shards,
                                      Phase::kv_heads,  Phase::mirror, Phase::replicas,
                                      Phase::instances, Phase::tied,   Phase::twins};
  static constexpr Phase kOfMicrobatch[]{Phase::checks, Phase::shards, Phase::kv_heads,
                                         Phase::replicas};
  const Phases whole = tied_sums_ ? Phases(kWholeSums) : Phases(kWhole);
  ready_.push_back({.bucket = bucket, .phases = is_divided_ ? Phases(kOfMicrobatch) : whole});
  if (is_divided_)
    last_in_slot_[static_cast<std::size_t>(buckets_[bucket].memory.gradient_slot)] = ready_.size();
}

void BucketReduction::progress() {
  for (std::size_t place = ended_; place < begun_; ++place) go_on(place);
  while (begun_ < ready_.size()) {
    UnderWay& next = under_way(begun_);
    if (begun_ >= kUnderWay && !next.done) return;
    next = {.what = ready_[begun_]};
    go_on(begun_++);
  }
}

void BucketReduction::finish() {
  if (!is_divided_)
    for (std::size_t b = 0; b < buckets_.size(); ++b)
      if (missing_[b] != kReady) make_ready(b);
  drain();
  if (is_divided_) complete_slices();
  stream_->synchronize();
  for (const Untimed& next : untimed_)
    log_.add_span(*next.report, next.bucket, next.began_s, *next.work);
  untimed_.clear();
  for (UnderWay& last : under_way_) last.ended.reset();
  checks_.read();
}

void BucketReduction::drain() {
  for (progress(); ended_ < ready_.size(); progress()) wait_for(under_way(ended_));
}

/// Both uses of a tied matrix are added when each has been summed over replicas and microbatches,
/// because only slices of them are left then; the copy of the same layers likewise.
void BucketReduction::complete_slices() {
  static constexpr Phase kOfStep[]{Phase::instances, Phase::tied, Phase::uses, Phase::mirror,
                                   Phase::twins};
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const StateBucket& bucket = buckets_[b].memory;
    if (num_reductions_[b] == 0) stream_->device().ops().fill_zero(*stream_, bucket.kept_gradient);
  }
  static constexpr Phase kOfHeadUse[]{Phase::instances};
  // The head's use is the last bucket, and must be complete before it is added to the embedding's.
  for (std::size_t b = buckets_.size(); b-- > 0;) {
    const bool is_head_use = buckets_[b].memory.is_head_use;
    ready_.push_back({.bucket = b, .phases = is_head_use ? Phases(kOfHeadUse) : Phases(kOfStep)});
    if (is_head_use) drain();
  }
  drain();
}

// --- divided gradients: the memory in which nodes write them

/// What must end before the node has the memory for its gradients; null: nothing. Without overlap,
/// what is under way keeps every node waiting.
const BucketReduction::UnderWay* BucketReduction::blocking(const NodeEffects& node) {
  if (!is_divided_ || ended_ == ready_.size()) return nullptr;
  if (!spec_.overlaps) return &under_way(ended_);
  for (const int b : node.adds_to) {
    const int slot = buckets_[static_cast<std::size_t>(b)].memory.gradient_slot;
    if (last_in_slot_[static_cast<std::size_t>(slot)] > ended_) return &under_way(ended_);
  }
  return nullptr;
}

const tensor::Work* BucketReduction::awaited(const NodeEffects& node) {
  if (!blocking(node)) return nullptr;
  progress();
  const UnderWay* const oldest = blocking(node);
  return oldest ? oldest->work.get() : nullptr;
}

double BucketReduction::open(const NodeEffects& node) {
  double waited_s = 0;
  while (blocking(node)) {
    progress();
    if (blocking(node)) waited_s += wait_for(under_way(ended_));
  }
  for (const int b : node.adds_to) {
    const auto& bucket = buckets_[static_cast<std::size_t>(b)].memory;
    const auto slot = static_cast<std::size_t>(bucket.gradient_slot);
    if (last_in_slot_[slot] > 0) slot_is_free_[slot]->wait(stage_.stream_of(Pass::weight_gradient));
  }
  return waited_s;
}

// --- a bucket's phases

/// Begins as many phases as can. Collectives of a group must begin in one order on all members:
/// a bucket does not overtake the one before it.
void BucketReduction::go_on(std::size_t place) {
  UnderWay& now = under_way(place);
  while (!now.done) {
    if (now.work) {
      if (now.work->holds_up()) return;
      end_phase(now);
    }
    if (now.num_begun == now.what.phases.size()) {
      end(now);
      break;
    }
    if (place > ended_) {
      const UnderWay& before = under_way(place - 1);
      if (!before.done && before.num_begun <= now.num_begun) return;
    }
    ++now.num_begun;
    begin_phase(now);
  }
  while (ended_ < begun_ && under_way(ended_).done) ++ended_;
}

void BucketReduction::end(UnderWay& now) {
  now.done = true;
  const StateBucket& bucket = bucket_of(now).memory;
  if (bucket.gradient_slot >= 0)
    slot_is_free_[static_cast<std::size_t>(bucket.gradient_slot)]->record(*stream_);
}

Tensor BucketReduction::on_wire(const SharedBucket& bucket) const {
  const auto first = bucket.memory.gradient.as<float>() - first_gradient(buckets_);
  return wire_.view(spec_.wire, {bucket.range().size()},
                    static_cast<std::size_t>(first) * tensor::size_of(spec_.wire));
}

std::int64_t BucketReduction::bytes(const DataParallelSpec& spec, const StageSpec& stage,
                                    int replicas) {
  const ParameterLayout layout = lay_out_parameters(stage);
  const std::int64_t elements = written_elements(layout, stage);
  return (replicas > 1 ? wire_bytes(spec, elements) : 0) +
         BucketChecks::bytes(spec, layout.entries.size());
}

}  // namespace troupe::stages
