#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/device/shared_memory.h"
#include "transport/edges/device_work.h"
#include "transport/memory/descriptor_offers.h"
#include "transport/memory/slot_memory.h"
#include "transport/wire/edge_placement.h"

namespace troupe::transport {

/// Slots in the memory of the receiver's device.
class DeviceSlots {
 public:
  /// Slots that no other process maps.
  explicit DeviceSlots(tensor::Buffer memory) : memory_(std::move(memory)) {}
  /// Slots that the sender maps by the descriptor that is offered meanwhile.
  DeviceSlots(tensor::SharedMemory memory, std::shared_ptr<DescriptorOffers> offers);
  DeviceSlots(const DeviceSlots&) = delete;
  DeviceSlots& operator=(const DeviceSlots&) = delete;
  ~DeviceSlots();

  std::byte* data() const { return static_cast<std::byte*>(memory().data()); }
  std::size_t bytes() const { return memory().bytes(); }
  /// SegmentName::kNone: nobody can map them.
  const SegmentName& name() const { return name_; }

 private:
  const tensor::Buffer& memory() const { return shared_ ? shared_.memory() : memory_; }

  tensor::Buffer memory_;
  tensor::SharedMemory shared_;
  std::shared_ptr<DescriptorOffers> offers_;
  SegmentName name_;
};

/// Where an edge's messages are at its receiver.
struct ReceiverMemory {
  EdgePlacement placement = EdgePlacement::host;
  /// The host memory in which they arrive. Null: they are written into `device`, or the edge is
  /// local, whose messages stay in the sender's buffers.
  std::shared_ptr<SlotMemory> arrivals;
  /// Where they are read, if not where they arrive.
  std::shared_ptr<DeviceSlots> device;
  std::vector<std::unique_ptr<DeviceCopy>> copies = {};  ///< by slot, if staged
};

/// Where an edge's messages leave from, and where they go.
struct SenderMemory {
  EdgePlacement placement = EdgePlacement::host;
  std::unique_ptr<MappedSlots> mapped;  ///< null: payloads travel
  tensor::Buffer payloads = {};         ///< pinned, by buffer, if staged and not mapped
};

}  // namespace troupe::transport
