#pragma once

#include <memory>
#include <vector>

#include "transport/edges/link.h"
#include "transport/ucx/ucx_transfer.h"

namespace troupe::transport {

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
