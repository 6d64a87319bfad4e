#include "transport/ucx_link.h"

#include <atomic>
#include <cstring>

#include "transport/ucx_error.h"
#include "transport/ucx_transfer.h"

namespace troupe::transport {
namespace {

/// Memory from UCX: shared memory where the transports have it, else private.
class UcxSlots : public SlotMemory {
 public:
  UcxSlots(ucp_context_h context, std::size_t bytes) : context_(context) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.length = bytes;
    params.flags = UCP_MEM_MAP_ALLOCATE;
    check_ucx(ucp_mem_map(context, &params, &memory_), "UCX has no memory for an edge's slots");
    ucp_mem_attr_t attributes{};
    attributes.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
    ucp_mem_query(memory_, &attributes);
    data_ = static_cast<std::byte*>(attributes.address);
    std::memset(data_, 0, bytes);  // all pages are here from now on
    if (ucp_rkey_pack(context, memory_, &key_, &key_bytes_) != UCS_OK) key_bytes_ = 0;
  }
  ~UcxSlots() override {
    if (key_bytes_ > 0) ucp_rkey_buffer_release(key_);
    ucp_mem_unmap(context_, memory_);
  }
  std::byte* data() const override { return data_; }
  std::span<const std::byte> access() const override {
    if (key_bytes_ > decltype(Grant::access)::kCapacity) return {};
    return {static_cast<const std::byte*>(key_), key_bytes_};
  }

 private:
  ucp_context_h context_;
  ucp_mem_h memory_ = nullptr;
  std::byte* data_ = nullptr;
  void* key_ = nullptr;
  std::size_t key_bytes_ = 0;
};

class UcxMappedSlots : public MappedSlots {
 public:
  UcxMappedSlots(ucp_rkey_h key, std::byte* data) : key_(key), data_(data) {}
  ~UcxMappedSlots() override { ucp_rkey_destroy(key_); }
  std::byte* data() const override { return data_; }

 private:
  ucp_rkey_h key_;
  std::byte* data_;
};

}  // namespace

void UcxLink::start(LinkEvents& events) {
  events_ = &events;
  worker_.on_message(static_cast<unsigned>(MessageId::edge), &UcxLink::on_message, this);
}

std::unique_ptr<SlotMemory> UcxLink::allocate(std::size_t bytes) {
  return std::make_unique<UcxSlots>(worker_.context(), bytes);
}

std::unique_ptr<MappedSlots> UcxLink::map(int rank, const Grant& grant) {
  const ucp_ep_h endpoint = peers_.endpoint(rank);
  ucp_rkey_h key = nullptr;
  if (!endpoint || ucp_ep_rkey_unpack(endpoint, grant.access.span().data(), &key) != UCS_OK)
    return nullptr;
  void* data = nullptr;
  if (ucp_rkey_ptr(key, grant.address, &data) != UCS_OK) {  // the peer is on another host
    ucp_rkey_destroy(key);
    return nullptr;
  }
  return std::make_unique<UcxMappedSlots>(key, static_cast<std::byte*>(data));
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
  worker_.use();
  // What was written into a mapped slot must be there before the header says so.
  std::atomic_thread_fence(std::memory_order_release);
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
