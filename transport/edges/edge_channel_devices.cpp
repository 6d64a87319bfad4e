#include <fmt/format.h>

#include <utility>

#include "transport/edges/edge_channel.h"

// What the channel does about edges on a device. What calls the device runs in DeviceWork's thread,
// without the link's lock, and comes back here. Each step counts as a transfer of its
// configuration, which thereby outlives it; if that was closed meanwhile, the step is dropped.

namespace troupe::transport {

void EdgeChannel::end() {
  close("it has ended");
  if (device_edges_) device_edges_->work().drain();
}

void EdgeChannel::on_work_failed() {
  const std::unique_lock<Link> lock(link_);
  link_.notify();  // who waits asks, and throws
}

void EdgeChannel::on_copied(DeviceCopy& copy) {
  const std::unique_lock<Link> lock(link_);
  if (copy.way == DeviceCopy::Way::in) return arrive(*static_cast<Inbox::Slot*>(copy.owner));
  auto& buffer = *static_cast<Outbox::Buffer*>(copy.owner);
  const bool is_current = buffer.configuration == configuration_.get();
  is_current&& closed_.empty() ? depart(*buffer.box, buffer) : on_departed(buffer);
}

/// Maps or pins the slots that a receiver has granted.
void EdgeChannel::map_slots_of(Outbox& box, int receiver, const Grant& grant) {
  if (!closed_.empty()) return;
  auto mapped = std::make_shared<std::unique_ptr<MappedSlots>>();
  if (!grant.on_device) *mapped = link_.map(receiver, grant.segment, slots_bytes(box.edge()));
  const bool can_map = link_.shares_memory_with(receiver);
  ++configuration_->in_flight;
  device_edges_->work().call(
      [this, configuration = configuration_.get(), &box, grant, mapped, can_map] {
        std::optional<SenderMemory> memory;
        if (!grant.on_device)
          memory = device_edges_->pin(box.edge(), std::move(*mapped));
        else if (can_map)
          memory = device_edges_->map(box.edge(), grant.segment);
        on_mapped(*configuration, box, std::move(memory), grant.kept);
      });
}

/// Takes slots, or none, which the receiver then grants in another way.
void EdgeChannel::on_mapped(OpenConfiguration& configuration, Outbox& box,
                            std::optional<SenderMemory> memory, bool kept) {
  const std::unique_lock<Link> lock(link_);
  if (!transfer_ended(&configuration) || !closed_.empty()) return;
  if (memory) {
    box.open(std::move(*memory), kept);
    pump(box);
  } else {
    box.decline();
    link_.send_control(box.edge().to, header_of(Decline{.edge = box.id()}));
  }
}

/// Stages an edge whose sender cannot map its slots on the device.
void EdgeChannel::on_decline(int sender, const Decline& decline) {
  Inbox* const inbox = end_of(configuration_->inboxes, sender, decline.edge);
  if (!inbox || decline.edge != inbox->id() || inbox->memory().placement != EdgePlacement::peer ||
      !inbox->is_unused())
    return refuse(
        fmt::format("rank {} declines slots of chunk {}, expected no such message from it",
                    board_.rank_of(sender), decline.edge.chunk));
  if (!closed_.empty()) return;
  inbox->decline();
  ++configuration_->in_flight;
  device_edges_->work().call(
      [this, configuration = configuration_.get(), inbox, slots = inbox->memory().device] {
        auto arrivals = arrivals_of(*configuration, inbox->edge());
        on_staged(*configuration, *inbox,
                  device_edges_->staged(inbox->edge(), slots, std::move(arrivals)));
      });
}

/// The memory in which messages of other edges of this end arrive, else new memory.
std::shared_ptr<SlotMemory> EdgeChannel::arrivals_of(OpenConfiguration& configuration,
                                                     const Edge& edge) {
  std::vector<Edge> pieces;
  {
    const std::unique_lock<Link> lock(link_);
    for (const Inbox& inbox : ends_of(configuration.inboxes, edge)) {
      if (inbox.memory().arrivals) return inbox.memory().arrivals;
      pieces.push_back(inbox.edge());
    }
  }
  return device_edges_->make_arrivals(pieces);
}

void EdgeChannel::on_staged(OpenConfiguration& configuration, Inbox& inbox, ReceiverMemory memory) {
  ReceiverMemory before;  // ends without the lock
  const std::unique_lock<Link> lock(link_);
  if (!transfer_ended(&configuration) || !closed_.empty()) return;
  before = inbox.stage(std::move(memory));
  grant_slots(inbox);
}

}  // namespace troupe::transport
