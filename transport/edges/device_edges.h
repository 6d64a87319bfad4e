#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "transport/edges/edge_memory.h"
#include "transport/edges/link.h"

namespace troupe::transport {

/// What the edges of one rank have of a device whose memory the host does not read. Its functions
/// call the device and are called without the link's lock.
class DeviceEdges {
 public:
  /// Device, link and events outlive it.
  DeviceEdges(tensor::Device& device, EdgeChoice choice, Link& link, DeviceWork::Events& events)
      : device_(device), choice_(choice), link_(link), work_(device, events) {}

  bool serves(const tensor::Device& device, EdgeChoice choice) const {
    return &device_ == &device && choice_ == choice;
  }
  DeviceWork& work() { return work_; }

  /// Memory of the edges of one end, from other ranks, one for each: such that its sender can map
  /// it, if that may be. Messages are read in slots that all share.
  std::vector<ReceiverMemory> receiver_memory(std::span<const Edge> pieces);
  /// Memory for an edge whose sender cannot map `slots`, which stay where it is read; `arrivals`,
  /// in which its messages arrive, are of make_arrivals().
  ReceiverMemory staged(const Edge& edge, std::shared_ptr<DeviceSlots> slots,
                        std::shared_ptr<SlotMemory> arrivals);
  /// Memory of the host in which messages of the edges of one end arrive: such that senders on this
  /// host map it, if it can be had and pinned.
  std::shared_ptr<SlotMemory> make_arrivals(std::span<const Edge> pieces);
  /// Copies for the buffers of an edge to another rank.
  std::vector<std::unique_ptr<DeviceCopy>> sender_copies(const Edge& edge);
  /// What a grant of slots on a device gives. None: this process cannot map them.
  std::optional<SenderMemory> map(const Edge& edge, const SegmentName& slots);
  /// What a grant of slots in the receiver's host memory gives, mapped if this process can.
  SenderMemory pin(const Edge& edge, std::unique_ptr<MappedSlots> mapped);

 private:
  bool shares_memory_with(int peer);
  std::vector<std::unique_ptr<DeviceCopy>> make_copies(DeviceCopy::Way way, std::size_t count);

  tensor::Device& device_;
  const EdgeChoice choice_;
  Link& link_;
  std::shared_ptr<DescriptorOffers> offers_;  // once they were needed
  DeviceWork work_;                           // last: its thread may use the rest
};

}  // namespace troupe::transport
