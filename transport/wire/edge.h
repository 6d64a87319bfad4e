#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensor/values/dtype.h"
#include "tensor/values/shape.h"

namespace troupe::transport {

/// Activations travel forward, their gradients backward; training state goes wherever it is needed.
enum class Direction : std::uint8_t { forward = 0, backward = 1, state = 2 };

/// Where the rows of an edge's tensor lie in the tensor that the chunk at one of its ends computes
/// with.
struct Piece {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;  ///< of the chunk's tensor; 0: the edge carries all of it
  bool is_whole() const { return rows == 0; }
  bool operator==(const Piece&) const = default;
};

/// One directed connection between two chunks. Both ends hold an equal description: what arrives
/// must fit it. An edge whose ends are one rank hands the buffer over without a copy.
/// Per (chunk, direction) a rank has one incoming edge and one outgoing edge, or, where the stages
/// of the two chunks differ in width, one for each piece of its tensor. Those of one end are alike
/// in all that is not the piece's own, and none of them is from a rank to itself. The pieces that a
/// rank receives tile its tensor; those that it sends may overlap.
struct Edge {
  int from = 0;   ///< the rank that sends
  int to = 0;     ///< the rank that receives
  int chunk = 0;  ///< the chunk that receives, counted over the whole pipeline
  Direction direction = Direction::forward;
  tensor::DType dtype = tensor::DType::f32;
  tensor::Shape shape;  ///< of what the edge carries: if that is a piece, dim 0 counts its rows
  int slots = 1;        ///< receive buffers = the credits the receiver's open() grants
  Piece sent{};         ///< of what the sender's chunk writes
  Piece received{};     ///< of what the receiver's chunk reads
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

/// The tensor that the chunk at an end computes with, where an edge's tensor lies in it, and the
/// bytes from one such tensor of the end to the next.
struct EndTensor {
  tensor::Shape shape;
  std::size_t offset = 0;
  std::size_t stride = 0;
};
EndTensor sent_tensor(const Edge& edge);
EndTensor received_tensor(const Edge& edge);

/// Bytes of what an edge carries.
std::size_t tensor_bytes(const Edge& edge);
/// Bytes of all slots at an edge's receiver, which hold tensors of its chunk: edges that carry
/// pieces of one tensor share them. An edge from a rank to itself has none: its messages stay in
/// the sender's buffers.
std::size_t slots_bytes(const Edge& edge);
/// Buffers at an edge's sender, which edges that carry pieces of one tensor share. An edge to the
/// rank itself has more, in exchange for slots.
std::size_t num_send_buffers(const Edge& edge);
std::size_t send_buffers_bytes(const Edge& edge);
/// Bytes from one payload to the next where payloads do not leave from the buffers themselves.
std::size_t payload_stride(const Edge& edge);

/// The edges that end at `rank`, or begin there, by (chunk, direction): one, or those of all
/// pieces. In the order in which `edges` has the first of each.
std::vector<std::vector<Edge>> receiving_ends(std::span<const Edge> edges, int rank);
std::vector<std::vector<Edge>> sending_ends(std::span<const Edge> edges, int rank);
/// Bytes of all slots, or buffers, of a rank: those that edges share count once. Take no memory.
std::size_t slots_bytes(std::span<const Edge> edges, int rank);
std::size_t send_buffers_bytes(std::span<const Edge> edges, int rank);

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
