#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "transport/edges/link.h"

namespace troupe::transport {

/// Which handler of a worker an active message is for.
enum class MessageId : unsigned { edge = 1, group = 2 };

/// Sends an active message. Calls transfer.on_done at once or later; header, payload and transfer
/// must stay until then.
void ucx_send(ucp_ep_h endpoint, MessageId id, std::span<const std::byte> header,
              std::span<const std::byte> payload, Transfer& transfer);

/// Fetches the payload behind the `descriptor` that a message handler was given. Calls
/// transfer.on_done at once or later.
void ucx_receive(ucp_worker_h worker, void* descriptor, std::span<std::byte> out,
                 Transfer& transfer);

/// Sends headers without a payload, from copies that live as long as UCX needs them. Guarded by the
/// worker's lock; outlives every request.
class UcxControl {
 public:
  explicit UcxControl(MessageId id) : id_(id) {}
  void send(ucp_ep_h endpoint, const Header& header);

 private:
  struct Message : Transfer {
    HeaderBytes header;
  };

  MessageId id_;
  std::vector<std::unique_ptr<Message>> messages_;  ///< every message made so far
  std::vector<Message*> free_;                      ///< messages that no request uses
};

}  // namespace troupe::transport
