#include "transport/ucx/ucx_link.h"

#include <cstring>

namespace troupe::transport {

void UcxLink::start(LinkEvents& events) {
  events_ = &events;
  worker_.on_message(static_cast<unsigned>(MessageId::edge), &UcxLink::on_message, this);
}

std::shared_ptr<SlotMemory> UcxLink::allocate(int sender, std::size_t bytes) {
  return pool_->take(bytes, peers_.share_memory_with(sender));
}

std::unique_ptr<MappedSlots> UcxLink::map(int receiver, const SegmentName& name,
                                          std::size_t bytes) {
  return peers_.share_memory_with(receiver) ? map_slots(name, bytes) : nullptr;
}

void UcxLink::send(int to, OutgoingTensor& tensor) {
  tensor.owner = this;
  tensor.on_done = [](Transfer& transfer, bool) {
    static_cast<UcxLink*>(transfer.owner)
        ->events_->on_departed(static_cast<OutgoingTensor&>(transfer));
  };
  const ucp_ep_h endpoint = peers_.endpoint(to);
  if (!endpoint) {
    tensor.on_done(tensor, false);
    return events_->on_peer_lost(to, "there is none");
  }
  peers_.count_sent(to, tensor.tensor_bytes);
  worker_.use();
  // Data written into a mapped slot is visible before the header: UCX's store fence orders both.
  ucx_send(endpoint, MessageId::edge, {tensor.header.data(), tensor.header_bytes},
           {tensor.payload, tensor.payload_bytes}, tensor);
}

void UcxLink::send_control(int to, const Header& header) {
  const ucp_ep_h endpoint = peers_.endpoint(to);
  if (!endpoint) return events_->on_peer_lost(to, "there is none");
  worker_.use();
  control_.send(endpoint, header);
}

ucs_status_t UcxLink::on_message(void* link, const void* header, std::size_t header_length,
                                 void* data, std::size_t length, const ucp_am_recv_param_t* param) {
  return static_cast<UcxLink*>(link)->receive(
      {static_cast<const std::byte*>(header), header_length},
      {static_cast<std::byte*>(data), length}, param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
}

ucs_status_t UcxLink::receive(std::span<const std::byte> header_bytes, std::span<std::byte> payload,
                              bool is_rendezvous) {
  const auto header = decode(header_bytes);
  if (!header) {
    events_->on_unreadable(header_bytes.size());
    return UCS_OK;
  }
  IncomingTensor* tensor = events_->on_message(*header, payload.size());
  if (!tensor) return UCS_OK;
  if (!is_rendezvous) {
    std::memcpy(tensor->data, payload.data(), payload.size());
    events_->on_payload(*tensor);
    return UCS_OK;
  }
  tensor->owner = this;
  tensor->on_done = [](Transfer& transfer, bool ok) {
    auto& events = *static_cast<UcxLink*>(transfer.owner)->events_;
    auto& incoming = static_cast<IncomingTensor&>(transfer);
    ok ? events.on_payload(incoming) : events.on_payload_lost(incoming);
  };
  ucx_receive(worker_.use(), payload.data(), {tensor->data, payload.size()}, *tensor);
  return UCS_INPROGRESS;
}

}  // namespace troupe::transport
