#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensor/values/dtype.h"
#include "tensor/values/shape.h"

namespace troupe::transport {

/// Activations travel forward, their gradients backward; training state goes wherever it is needed.
enum class Direction : std::uint8_t { forward = 0, backward = 1, state = 2 };

/// One directed connection between two chunks of one replica. Both ends hold an equal description:
/// what arrives must fit it. An edge whose ends are one rank hands the buffer over without a copy.
/// Per (chunk, direction) a rank has one incoming edge and one outgoing edge.
struct Edge {
  int from = 0;   ///< the rank that sends
  int to = 0;     ///< the rank that receives
  int chunk = 0;  ///< the chunk that receives, counted over the whole pipeline
  Direction direction = Direction::forward;
  tensor::DType dtype = tensor::DType::f32;
  tensor::Shape shape;
  int slots = 1;  ///< receive buffers = the credits the receiver's open() grants
  bool is_local() const { return from == to; }
  bool operator==(const Edge&) const = default;
};
/// Hash over all fields of an edge, by which its two ends check that their descriptions agree.
std::uint64_t digest(const Edge& edge);
/// "edge 1 -> 2 (activations into chunk 2)".
std::string to_string(const Edge& edge);

/// Number of buffers at the sending end of an edge, besides the receiver's slots: one is written
/// while another waits for a credit or leaves.
inline constexpr int kSendBuffers = 2;

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

/// Names the message that an action reads or writes. The order of arrival never matters.
struct MessageKey {
  std::uint64_t step = 0;
  int microbatch = 0;
  int chunk = 0;  ///< the chunk that receives
  Direction direction = Direction::forward;
  bool operator==(const MessageKey&) const = default;
};
/// "activation of step 7, microbatch 3 into chunk 2".
std::string to_string(const MessageKey& key);

}  // namespace troupe::transport
