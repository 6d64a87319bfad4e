#include "transport/edges/edge_memory.h"

namespace troupe::transport {

DeviceSlots::DeviceSlots(tensor::SharedMemory memory, std::shared_ptr<DescriptorOffers> offers)
    : shared_(std::move(memory)),
      offers_(std::move(offers)),
      name_(offers_->offer(shared_.descriptor())) {}

DeviceSlots::~DeviceSlots() {
  if (offers_) offers_->withdraw(name_);
}

}  // namespace troupe::transport
