#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace troupe::transport {

class SlotMemory;

/// Activations travel forward, their gradients backward; training state goes wherever it is needed.
enum class Direction : std::uint8_t { forward = 0, backward = 1, state = 2 };

/// One directed connection between two chunks of one replica. Both ends hold an equal description:
/// what arrives must fit it. An edge whose ends are one rank hands the buffer over without a copy.
/// A rank has one edge a (chunk, direction) in and one out.
struct Edge {
  int from = 0;   ///< rank
  int to = 0;     ///< rank
  int chunk = 0;  ///< the chunk that receives, counted over the whole pipeline
  Direction direction = Direction::forward;
  tensor::DType dtype = tensor::DType::f32;
  tensor::Shape shape;
  int slots = 1;  ///< receive buffers = the credits the receiver's open() grants
  bool operator==(const Edge&) const = default;
};
/// Over all fields, for the two ends to agree on.
std::uint64_t digest(const Edge& edge);
/// "edge 1 -> 2 (activations into chunk 2)".
std::string to_string(const Edge& edge);

/// Buffers of the sending end of an edge, beside the receiver's slots: one is written while another
/// waits for a credit or leaves.
inline constexpr int kSendBuffers = 2;

/// What a stage asks its mailbox for. Order of arrival never matters.
struct MessageKey {
  std::uint64_t step = 0;
  int microbatch = 0;
  int chunk = 0;  ///< the chunk that receives
  Direction direction = Direction::forward;
  bool operator==(const MessageKey&) const = default;
};
/// "activation of step 7, microbatch 3 into chunk 2".
std::string to_string(const MessageKey& key);

/// What an action cannot start without: the message it reads, the buffer it writes.
struct Needs {
  std::optional<MessageKey> message;
  std::optional<MessageKey> buffer;
};

/// Memory of Channel::keep() in which messages into this edge shall arrive again.
struct KeptSlots {
  int chunk = 0;
  Direction direction = Direction::forward;
  std::shared_ptr<SlotMemory> memory;
};

/// What one rank must know of the data plane of an epoch.
struct EpochSpec {
  std::uint64_t run = 0;    ///< random id of the run
  std::uint32_t epoch = 0;  ///< messages of an older epoch or another run are counted and dropped
  int rank = 0;
  std::vector<Edge> edges;  ///< those that begin or end here
  /// Such an edge has no credits before free_kept(). Where memory cannot be used again the edge has
  /// fresh one, and all its credits.
  std::vector<KeptSlots> kept{};
  /// What texts call a process that the edges name by a number that stays: its rank of now. Who is
  /// not there is called by the number.
  std::map<int, int> ranks = {};
};

/// The wait a runner is in, for status and for the text of a timeout.
struct Wait {
  /// "activation of step 7, microbatch 3 into chunk 2 from rank 1", "credit for ...", ...
  std::string what;
  double seconds = 0;
};

struct EdgeCount {
  int from = 0;
  int to = 0;
  /// Bytes of activations and gradients sent over it (by the sender's count) since open().
  std::uint64_t bytes = 0;
  int queued = 0;  ///< tensors that wait for a credit now
};

struct ChannelCounts {
  std::uint64_t dropped_old = 0;        ///< messages of an older epoch or another run
  std::uint64_t dropped_duplicate = 0;  ///< messages that had arrived before
  std::uint64_t refused = 0;            ///< messages that did not fit their edge
  std::vector<EdgeCount> edges;         ///< from here to other ranks, one entry a pair of ranks
};

/// One rank's end of the data plane: tensors by key, bounded by credits. A sender has no credit
/// until the receiver's open() of the same epoch grants it, so nothing can arrive too early.
/// set_deadline(), waiting(), counts() and close() are called by any thread, the rest by the runner
/// thread alone.
/// Calls end with Error{unavailable}
/// when the channel is closed (with the reason), when a peer of its edges is disconnected, when the
/// deadline passes (naming the wait), or when a message was refused (naming sender, edge, expected
/// and got).
class Channel {
 public:
  virtual ~Channel() = default;

  /// Starts an epoch: forgets all messages and credits of the one before, allocates the buffers of
  /// its edges and grants the senders their credits. Peers must be connected. Epochs of a run grow.
  virtual void open(const EpochSpec& spec) = 0;
  /// How long one blocking call may wait. Zero (at first): for ever.
  virtual void set_deadline(std::chrono::milliseconds deadline) = 0;

  /// A free buffer to write the next message of the edge `key` belongs to; its bytes are arbitrary.
  /// Blocks while none is free. With a credit at hand and memory shared with the receiver it is the
  /// receiver's slot itself.
  virtual tensor::Tensor acquire(const MessageKey& key) = 0;
  /// Sends the buffer that acquire(key) gave; never blocks: without a credit it is queued. The
  /// buffer belongs to the channel again.
  virtual void send(const MessageKey& key, const tensor::Tensor& buffer) = 0;
  /// The message with this key. Blocks until it is here. The view is valid until release(key).
  virtual tensor::Tensor receive(const MessageKey& key) = 0;
  /// Whether receive() and acquire() of these would return at once.
  virtual bool ready(const Needs& needs) = 0;
  /// Blocks until one of both is ready. The wait is named after the first.
  virtual void wait_for_either(const Needs& first, const Needs& second) = 0;
  /// Frees the slot of a received message and gives its credit back to the sender.
  virtual void release(const MessageKey& key) = 0;
  /// Holds the memory that messages of this key's edge arrive in, from another rank: while it is
  /// held, what was received and not released stays as it is, whatever becomes of the channel.
  virtual std::shared_ptr<SlotMemory> keep(const MessageKey& key) = 0;
  /// What this key's edge kept of an epoch before is needed no more: gives the sender its credits.
  virtual void free_kept(const MessageKey& key) = 0;
  /// Blocks until every buffer handed to send() has left this rank.
  virtual void flush() = 0;

  virtual std::optional<Wait> waiting() const = 0;
  virtual ChannelCounts counts() const = 0;
  /// Wakes every waiter; later calls throw until the next open(). The first reason stays.
  virtual void close(const std::string& reason) = 0;
};

}  // namespace troupe::transport
