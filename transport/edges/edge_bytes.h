#pragma once

#include <cstddef>

#include "transport/edges/channel.h"

namespace troupe::transport {

/// Bytes of an edge's tensor.
std::size_t tensor_bytes(const Edge& edge);
/// Bytes from one slot of an edge, or buffer, to the next.
std::size_t slot_stride(const Edge& edge);
/// Bytes of all slots of an edge, at its receiver. An edge from a rank to itself has none: its
/// messages stay in the sender's buffers.
std::size_t slots_bytes(const Edge& edge);
/// Buffers at the sending end of an edge, of which one to the rank itself has more in exchange.
std::size_t num_send_buffers(const Edge& edge);
std::size_t send_buffers_bytes(const Edge& edge);

}  // namespace troupe::transport
