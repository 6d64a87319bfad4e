#include "transport/ucx/ucx_control.h"

namespace troupe::transport {

void UcxControl::send(ucp_ep_h endpoint, const Header& header) {
  if (free_.empty()) {
    messages_.push_back(std::make_unique<Message>());
    free_.reserve(messages_.size());
    free_.push_back(messages_.back().get());
  }
  Message& message = *free_.back();
  free_.pop_back();
  message.owner = this;
  message.on_done = [](Transfer& transfer, bool) {
    auto& control = *static_cast<UcxControl*>(transfer.owner);
    control.free_.push_back(static_cast<Message*>(&transfer));
  };
  const std::size_t bytes = encode(header, message.header);
  ucx_send(endpoint, id_, {message.header.data(), bytes}, {}, message);
}

}  // namespace troupe::transport
