#include "transport/edges/device_edges.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "transport/edges/edge_ends.h"

namespace troupe::transport {
namespace {

/// Slots of the host's memory that the ops of a device reach, for as long as this lives.
class PinnedSlots : public SlotMemory {
 public:
  /// `slots` are pinned.
  PinnedSlots(std::shared_ptr<SlotMemory> slots, tensor::Device& device)
      : slots_(std::move(slots)), device_(device) {}
  PinnedSlots(const PinnedSlots&) = delete;
  PinnedSlots& operator=(const PinnedSlots&) = delete;
  ~PinnedSlots() override { device_.unpin(slots_->data()); }
  std::byte* data() const override { return slots_->data(); }
  std::size_t bytes() const override { return slots_->bytes(); }
  SegmentName name() const override { return slots_->name(); }
  bool reclaim() override { return false; }  // it serves one configuration

 private:
  const std::shared_ptr<SlotMemory> slots_;
  tensor::Device& device_;
};

/// Pinned memory of a process alone.
class AllocatedSlots : public SlotMemory {
 public:
  explicit AllocatedSlots(tensor::Buffer memory) : memory_(std::move(memory)) {}
  std::byte* data() const override { return static_cast<std::byte*>(memory_.data()); }
  std::size_t bytes() const override { return memory_.bytes(); }
  SegmentName name() const override { return {}; }
  bool reclaim() override { return false; }

 private:
  tensor::Buffer memory_;
};

/// A receiver's slots that the ops of a device reach, for as long as this lives.
class PinnedMapping : public MappedSlots {
 public:
  /// `slots` are pinned.
  PinnedMapping(std::unique_ptr<MappedSlots> slots, tensor::Device& device)
      : slots_(std::move(slots)), device_(device) {}
  PinnedMapping(const PinnedMapping&) = delete;
  PinnedMapping& operator=(const PinnedMapping&) = delete;
  ~PinnedMapping() override { device_.unpin(slots_->data()); }
  std::byte* data() const override { return slots_->data(); }

 private:
  const std::unique_ptr<MappedSlots> slots_;
  tensor::Device& device_;
};

class DeviceMapping : public MappedSlots {
 public:
  explicit DeviceMapping(tensor::Buffer memory) : memory_(std::move(memory)) {}
  std::byte* data() const override { return static_cast<std::byte*>(memory_.data()); }

 private:
  tensor::Buffer memory_;
};

}  // namespace

bool is_on_device(const Edge& edge, const tensor::Device* device) {
  return device && !device->host_reads_memory() && edge.direction != Direction::state;
}

bool DeviceEdges::shares_memory_with(int peer) {
  const std::lock_guard<Link> lock(link_);
  return link_.shares_memory_with(peer);
}

std::vector<ReceiverMemory> DeviceEdges::receiver_memory(std::span<const Edge> pieces) {
  const std::size_t bytes = slots_bytes(pieces.front());
  const auto can_be_peer = [this](const Edge& edge) {
    return choice_ != EdgeChoice::staged && shares_memory_with(edge.from);
  };
  std::shared_ptr<DeviceSlots> slots;
  if (std::ranges::any_of(pieces, can_be_peer)) {
    if (!offers_) offers_ = std::make_shared<DescriptorOffers>();
    if (tensor::SharedMemory shared = device_.share(bytes))
      slots = std::make_shared<DeviceSlots>(std::move(shared), offers_);
  }
  const bool can_map = slots && slots->name().id != SegmentName::kNone;
  if (!can_map)
    slots = std::make_shared<DeviceSlots>(device_.allocate(bytes, tensor::MemoryKind::device));
  std::vector<ReceiverMemory> all;
  std::shared_ptr<SlotMemory> arrivals;
  for (const Edge& edge : pieces) {
    if (can_map && can_be_peer(edge)) {
      all.push_back({.placement = EdgePlacement::peer, .arrivals = nullptr, .device = slots});
      continue;
    }
    if (!arrivals) arrivals = make_arrivals(pieces);
    all.push_back(staged(edge, slots, arrivals));
  }
  return all;
}

ReceiverMemory DeviceEdges::staged(const Edge& edge, std::shared_ptr<DeviceSlots> slots,
                                   std::shared_ptr<SlotMemory> arrivals) {
  return {.placement = EdgePlacement::staged,
          .arrivals = std::move(arrivals),
          .device = std::move(slots),
          .copies = make_copies(DeviceCopy::Way::in, static_cast<std::size_t>(edge.slots))};
}

std::shared_ptr<SlotMemory> DeviceEdges::make_arrivals(std::span<const Edge> pieces) {
  const std::size_t bytes = slots_bytes(pieces.front());
  std::shared_ptr<SlotMemory> shared;
  {
    const std::lock_guard<Link> lock(link_);
    const int sender = sender_here(link_, pieces);
    if (link_.shares_memory_with(sender)) shared = link_.allocate(sender, bytes);
  }
  if (shared && shared->name().id != SegmentName::kNone && device_.pin(shared->data(), bytes))
    return std::make_shared<PinnedSlots>(std::move(shared), device_);
  return std::make_shared<AllocatedSlots>(device_.allocate(bytes, tensor::MemoryKind::pinned));
}

std::vector<std::unique_ptr<DeviceCopy>> DeviceEdges::sender_copies(const Edge& edge) {
  return make_copies(DeviceCopy::Way::out, num_send_buffers(edge));
}

std::vector<std::unique_ptr<DeviceCopy>> DeviceEdges::make_copies(DeviceCopy::Way way,
                                                                  std::size_t count) {
  std::vector<std::unique_ptr<DeviceCopy>> copies(count);
  for (auto& copy : copies)
    copy = std::make_unique<DeviceCopy>(
        DeviceCopy{.way = way, .from = {}, .to = {}, .done = device_.make_event()});
  return copies;
}

std::optional<SenderMemory> DeviceEdges::map(const Edge& edge, const SegmentName& slots) {
  const auto descriptor = fetch_descriptor(slots);
  if (!descriptor) return std::nullopt;
  tensor::Buffer memory = device_.map(descriptor->get(), slots_bytes(edge));
  if (!memory.data()) return std::nullopt;
  return SenderMemory{.placement = EdgePlacement::peer,
                      .mapped = std::make_unique<DeviceMapping>(std::move(memory))};
}

SenderMemory DeviceEdges::pin(const Edge& edge, std::unique_ptr<MappedSlots> mapped) {
  SenderMemory memory{.placement = EdgePlacement::staged, .mapped = nullptr};
  if (mapped && device_.pin(mapped->data(), slots_bytes(edge))) {
    memory.mapped = std::make_unique<PinnedMapping>(std::move(mapped), device_);
  } else {
    memory.payloads =
        device_.allocate(num_send_buffers(edge) * payload_stride(edge), tensor::MemoryKind::pinned);
  }
  return memory;
}

}  // namespace troupe::transport
