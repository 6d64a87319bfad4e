#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <span>

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

}  // namespace troupe::transport
