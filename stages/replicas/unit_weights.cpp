#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "stages/replicas/weight_exchange.h"
#include "tensor/errors/error.h"

namespace troupe::stages {
namespace {

class UnitWeights final : public WeightExchange {
 public:
  UnitWeights(const DataParallelSpec& spec, Stage& stage, std::span<const SharedBucket> buckets,
              const GradientGroups& groups, tensor::Device& device, CollectiveLog& log);
  ~UnitWeights() override {
    for (Lane& lane : lanes_) {
      lane.slots.clear();
      leave(*lane.stream);
    }
  }

  void begin_step() override {
    report_.clear();
    if (expert_report_) expert_report_->clear();
  }
  void expect(const UnitOrder& order) override;
  void share() override { is_stale_ = true; }
  void progress() override;
  const tensor::Work* awaited(Pass pass, const NodeEffects& node) override;
  double open(Pass pass, const NodeEffects& node) override;

 private:
  static constexpr std::ptrdiff_t kNotUsed = -1;
  /// What a slot has.
  struct Slot {
    int bucket = -1;  ///< -1: nothing that can be read
    /// Place in the order of the latest use for which the bucket is, or is being, gathered.
    std::ptrdiff_t last_use = kNotUsed;
    std::unique_ptr<tensor::Work> gather;  ///< until it is done and its time was taken
    bool is_packed = false;                ///< whether a node has waited for it
    double began_s = 0;
    std::unique_ptr<tensor::Event> released;  ///< reached when the nodes that read it have run
    /// Reached when it has been copied from what this replica alone keeps, without a gather.
    std::unique_ptr<tensor::Event> copied;
  };
  /// The slots of one pass.
  struct Lane {
    tensor::ProcessGroup *group = nullptr, *experts = nullptr;
    Pass pass = Pass::forward;
    std::unique_ptr<tensor::Stream> stream;
    std::vector<Slot> slots;
    std::span<const int> order;
    /// Places in the order: of the buckets that the node called last reads, and of the next bucket
    /// to be gathered.
    std::size_t first_read = 0, end_read = 0, gathered = 0;
  };

  /// The lane whose slots a pass reads, and whether the pass is the one that fills them.
  Lane& lane_of(Pass pass) { return lanes_[fills(pass) && pass != Pass::forward ? 1 : 0]; }
  bool fills(Pass pass) const { return reshards_ || pass == Pass::forward; }
  Slot& slot_of(Lane& lane, int bucket);
  const tensor::Tensor& whole_of(const Lane& lane, int bucket) const;
  void advance(Lane& lane, std::span<const int> reads);
  void gather_ahead(Lane& lane);
  void gather(Lane& lane, Slot& slot, int bucket);
  void take_time(Slot& slot);
  CollectiveReport& report_of(int bucket) const {
    return has_experts(bucket) ? *expert_report_ : report_;
  }
  bool has_experts(int bucket) const {
    return buckets_[static_cast<std::size_t>(bucket)].memory.is_expert;
  }

  Stage& stage_;
  const std::span<const SharedBucket> buckets_;
  const bool reshards_;
  const std::size_t ahead_;  // buckets
  CollectiveLog& log_;
  CollectiveReport& report_;
  CollectiveReport* const expert_report_;  // null: no replica shares its experts with another
  std::array<Lane, 2> lanes_;              // of forwards and evaluations, and of backwards
  bool is_stale_ = true;                   // whether weights have changed since slots were filled
};

UnitWeights::UnitWeights(const DataParallelSpec& spec, Stage& stage,
                         std::span<const SharedBucket> buckets, const GradientGroups& groups,
                         tensor::Device& device, CollectiveLog& log)
    : stage_(stage),
      buckets_(buckets),
      reshards_(spec.reshards),
      ahead_(spec.overlaps_gather ? static_cast<std::size_t>(spec.prefetch) : 0),
      log_(log),
      report_(log.add(groups.replicas.name, "all-gather")),
      expert_report_(groups.expert_forward_weights ? &log.add(groups.experts.name, "all-gather")
                                                   : nullptr) {
  lanes_[0].group = groups.forward_weights;
  lanes_[1].group = groups.backward_weights;
  lanes_[0].experts = groups.expert_forward_weights;
  lanes_[1].experts = groups.expert_backward_weights;
  lanes_[1].pass = Pass::backward;
  for (const SharedBucket& bucket : buckets_) {
    const auto reserve = [&](Lane& lane, int slot) {
      const auto count = static_cast<std::size_t>(slot) + 1;
      while (lane.slots.size() < count)
        lane.slots.emplace_back(
            Slot{.released = device.make_event(), .copied = device.make_event()});
    };
    reserve(lanes_[0], bucket.memory.forward_slot);
    reserve(lanes_[1], bucket.memory.backward_slot);
  }
  for (Lane& lane : lanes_) lane.stream = device.make_stream();
}

UnitWeights::Slot& UnitWeights::slot_of(Lane& lane, int bucket) {
  const StateBucket& memory = buckets_[static_cast<std::size_t>(bucket)].memory;
  const int slot = lane.pass == Pass::forward ? memory.forward_slot : memory.backward_slot;
  return lane.slots[static_cast<std::size_t>(slot)];
}

const tensor::Tensor& UnitWeights::whole_of(const Lane& lane, int bucket) const {
  const StateBucket& memory = buckets_[static_cast<std::size_t>(bucket)].memory;
  return lane.pass == Pass::forward ? memory.forward_weights : memory.backward_weights;
}

void UnitWeights::expect(const UnitOrder& order) {
  lanes_[0].order = order.forward;
  lanes_[1].order = reshards_ ? std::span<const int>(order.backward) : std::span<const int>();
  for (Lane& lane : lanes_) {
    for (Slot& slot : lane.slots) {
      if (slot.gather) slot.gather->wait();
      take_time(slot);
      slot.released->record(stage_.stream_of(lane.pass));
      slot.last_use = kNotUsed;
      if (is_stale_) slot.bucket = -1;
    }
    lane.first_read = lane.end_read = lane.gathered = 0;
  }
  is_stale_ = false;
  progress();
}

void UnitWeights::progress() {
  for (Lane& lane : lanes_) {
    for (Slot& slot : lane.slots) take_time(slot);
    gather_ahead(lane);
  }
}

/// Passes on to the buckets that the next node reads. The nodes that read those before have all
/// been called.
void UnitWeights::advance(Lane& lane, std::span<const int> reads) {
  const auto now = lane.order.subspan(lane.first_read, lane.end_read - lane.first_read);
  if (std::ranges::equal(now, reads)) return;
  for (const int bucket : now) slot_of(lane, bucket).released->record(stage_.stream_of(lane.pass));
  lane.first_read = lane.end_read;
  lane.end_read += reads.size();
  TROUPE_ASSERT(lane.end_read <= lane.order.size());
  TROUPE_ASSERT(std::ranges::equal(lane.order.subspan(lane.first_read, reads.size()), reads));
  gather_ahead(lane);
  TROUPE_ASSERT(lane.gathered >= lane.end_read);
}

/// Gathers in the order of the lane, which is that of all members of its group.
void UnitWeights::gather_ahead(Lane& lane) {
  const std::size_t end = std::min(lane.order.size(), lane.end_read + ahead_);
  for (; lane.gathered < end; ++lane.gathered) {
    const int bucket = lane.order[lane.gathered];
    Slot& slot = slot_of(lane, bucket);
    const auto first_read = static_cast<std::ptrdiff_t>(lane.first_read);
    const bool has_it = slot.bucket == bucket;
    if (!has_it && slot.last_use >= first_read) return;  // another bucket is read there
    if (!has_it) gather(lane, slot, bucket);
    slot.last_use = static_cast<std::ptrdiff_t>(lane.gathered);
  }
}

void UnitWeights::gather(Lane& lane, Slot& slot, int bucket) {
  if (slot.gather) slot.gather->wait();
  take_time(slot);
  const SharedBucket& shared = buckets_[static_cast<std::size_t>(bucket)];
  const tensor::Tensor& whole = whole_of(lane, bucket);
  slot.bucket = bucket;
  slot.is_packed = false;
  slot.began_s = now_s();
  slot.released->wait(*lane.stream);
  tensor::ProcessGroup* const group = has_experts(bucket) ? lane.experts : lane.group;
  if (!group) {
    stage_.stream_of(lane.pass).device().ops().copy(*lane.stream, shared.memory.kept_weights,
                                                    whole);
    slot.copied->record(*lane.stream);
    return;
  }
  slot.gather = group->all_gather(*lane.stream, shared.memory.kept_weights, whole, shared.counts);
  report_of(bucket).add(whole);
}

/// Adds the time of a gather that is done.
void UnitWeights::take_time(Slot& slot) {
  if (!slot.gather || !slot.is_packed || !slot.gather->done()) return;
  log_.add_span(report_of(slot.bucket), slot.bucket, slot.began_s, *slot.gather);
  slot.gather.reset();
}

const tensor::Work* UnitWeights::awaited(Pass pass, const NodeEffects& node) {
  if (node.reads.empty()) return nullptr;
  Lane& lane = lane_of(pass);
  if (fills(pass)) advance(lane, node.reads);
  for (const int bucket : node.reads) {
    const Slot& slot = slot_of(lane, bucket);
    if (slot.gather && !slot.is_packed && slot.gather->holds_up()) return slot.gather.get();
  }
  return nullptr;
}

double UnitWeights::open(Pass pass, const NodeEffects& node) {
  double waited_s = 0;
  if (node.reads.empty()) return waited_s;
  Lane& lane = lane_of(pass);
  if (fills(pass)) advance(lane, node.reads);
  for (const int bucket : node.reads) {
    Slot& slot = slot_of(lane, bucket);
    TROUPE_ASSERT(slot.bucket == bucket);
    if (slot.is_packed) continue;
    if (slot.gather) {
      const double begin_s = now_s();
      slot.gather->wait(stage_.stream_of(lane.pass));
      const double took_s = now_s() - begin_s;
      report_of(bucket).exposed_s += took_s;
      waited_s += took_s;
    } else {
      slot.copied->wait(stage_.stream_of(lane.pass));
    }
    stage_.pack(bucket, lane.pass);
    slot.is_packed = true;
  }
  return waited_s;
}

}  // namespace

std::unique_ptr<WeightExchange> make_unit_weights(const DataParallelSpec& spec, Stage& stage,
                                                  std::span<const SharedBucket> buckets,
                                                  const GradientGroups& groups,
                                                  tensor::Device& device, CollectiveLog& log) {
  return std::make_unique<UnitWeights>(spec, stage, buckets, groups, device, log);
}

}  // namespace troupe::stages
