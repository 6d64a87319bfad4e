#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensor/device/device.h"
#include "tensor/device/process_group.h"
#include "tensor/values/tensor.h"
#include "transport/wire/edge.h"
#include "transport/wire/edge_placement.h"

namespace troupe::transport {

class SlotMemory;

/// What an action cannot go on without: the message it reads, the buffer it writes, a collective
/// whose result it reads.
struct Needs {
  std::optional<MessageKey> message;
  std::optional<MessageKey> buffer;
  const tensor::Work* collective = nullptr;
};

/// Memory from Channel::keep() in which messages into the edge (chunk, direction) shall arrive
/// again.
struct KeptSlots {
  int chunk = 0;
  Direction direction = Direction::forward;
  std::shared_ptr<SlotMemory> memory;
};

/// What one rank must know about the data plane of a configuration.
struct ConfigurationSpec {
  std::uint64_t run = 0;  ///< random id of the run
  std::uint32_t configuration =
      0;  ///< messages of an older configuration or another run are counted and dropped
  int rank = 0;
  std::vector<Edge> edges;  ///< edges that begin or end at this rank
  /// Slot memory kept from an earlier configuration. The sender of such an edge has no credits
  /// before free_kept(). If the memory cannot be used again, the edge gets fresh memory and its
  /// sender all credits at once.
  std::vector<KeptSlots> kept{};
  /// The present rank of each process, by the number that names it in the edges and does not change
  /// between configurations. Texts for users name the rank, or the number if there is no entry.
  std::map<int, int> ranks = {};
  /// What computes with messages, but for training state, if the host does not read its memory:
  /// then acquire() and receive() give memory of the device. Outlives the channel. Null: they give
  /// host memory.
  tensor::Device* device = nullptr;
  /// Where the slots of such edges from and to other ranks shall lie.
  EdgeChoice choice = EdgeChoice::automatic;
};

/// Whether messages of an edge are computed with in the memory of `device`, which may be null.
/// Training state is not: those who send it read and write it on the host.
bool is_on_device(const Edge& edge, const tensor::Device* device);

/// The wait that a compute thread is in, for status and for the text of a timeout.
struct Wait {
  /// "activation of step 7, microbatch 3 into chunk 2 from rank 1", "credit for ...", ...
  std::string what;
  double seconds = 0;
  std::vector<int> on = {};  ///< the processes that it is for; of a collective the first few
};

struct EdgeCount {
  int from = 0;
  int to = 0;
  /// Bytes of activations and gradients that the sender has counted from `from` to `to` since
  /// open().
  std::uint64_t bytes = 0;
  int queued = 0;  ///< tensors that now wait for a credit
};

/// Where the slots of a rank's edges to and from another process lie, or to itself. If they are not
/// all of one placement, staged comes first.
struct PeerPlacement {
  int peer = 0;
  EdgePlacement placement = EdgePlacement::host;
  bool operator==(const PeerPlacement&) const = default;
};

struct ChannelCounts {
  std::uint64_t dropped_old = 0;        ///< messages of an older configuration or another run
  std::uint64_t dropped_duplicate = 0;  ///< messages that had arrived before
  std::uint64_t refused = 0;            ///< messages that did not fit their edge
  /// Bytes of all buffers: slots that messages arrive in, and what this rank sends from.
  std::uint64_t buffer_bytes = 0;
  std::vector<EdgeCount> edges;  ///< from this rank to others, one entry per pair
  /// What is known of edges on a device: a sender learns of its own by a grant.
  std::vector<PeerPlacement> placements;
};

/// One rank's end of the data plane: tensors by key, bounded by credits. A sender has no credit
/// until the receiver's open() of the same configuration grants it, so nothing can arrive too
/// early. set_deadline(), waiting(), counts() and close() are called by any thread, the rest by the
/// compute thread alone. Calls end with Error{unavailable} when the channel is closed (with the
/// reason), when a peer of its edges is disconnected, when the deadline passes (naming the wait),
/// or when a message was refused (naming sender, edge, expected and got); a wait also ends with the
/// device's own error, if the device fails that is to reach an event of send() or release().
class Channel {
 public:
  virtual ~Channel() = default;

  /// Starts a configuration: forgets all messages and credits of the configuration before,
  /// allocates the buffers of its edges and grants the senders their credits. Peers must be
  /// connected. Configuration numbers ascend within a run.
  virtual void open(const ConfigurationSpec& spec) = 0;
  /// How long one blocking call may wait. Zero, the initial value, means for ever.
  virtual void set_deadline(std::chrono::milliseconds deadline) = 0;

  /// A free buffer for the next message of the edge that `key` belongs to; its bytes are arbitrary.
  /// Blocks while none is free. If a credit is at hand and the receiver's slots are mapped, the
  /// buffer is the receiver's slot itself, unless the edge is staged. A buffer that leaves in
  /// pieces is for the whole message, and memory of this rank.
  virtual tensor::Tensor acquire(const MessageKey& key) = 0;
  /// Sends the buffer that acquire(key) gave; never blocks: without a credit it is queued. The
  /// buffer then belongs to the channel again.
  virtual void send(const MessageKey& key, const tensor::Tensor& buffer) = 0;
  /// send() that returns before the buffer is written: the message leaves when the event's latest
  /// mark is reached. On an edge from a rank to itself it is handed over at once, because its
  /// reader runs on the same stream as its writer. Until the mark is reached, no other thread than
  /// this one records or destroys the event.
  virtual void send(const MessageKey& key, const tensor::Tensor& buffer,
                    tensor::Event& written) = 0;
  /// The message with this key, made of all its pieces. Blocks until it is here. The view is valid
  /// until release(key). The senders of pieces must acquire the messages of an edge in one order.
  virtual tensor::Tensor receive(const MessageKey& key) = 0;
  /// Whether receive() and acquire() of these keys would return at once, and the collective is
  /// done.
  virtual bool ready(const Needs& needs) = 0;
  /// Blocks until one of the two is ready. The wait is named after `first`. Collectives must be
  /// those of groups that make progress with this channel (UcxNode::make_group), and live until the
  /// call returns.
  virtual void wait_for_either(const Needs& first, const Needs& second) = 0;
  /// Frees the slot of a received message and gives its credit back to the sender.
  virtual void release(const MessageKey& key) = 0;
  /// release() that returns before the message was read: the slot is freed when the event's latest
  /// mark is reached.
  virtual void release(const MessageKey& key, tensor::Event& read) = 0;
  /// Blocks until all events that send() and release() were given are reached and what they held
  /// back is done, or dropped if the channel was closed, and no copy between the device and slots
  /// is under way. Throws nothing. Before the channel is destroyed, or after an error, it is called
  /// once the device has run everything.
  virtual void settle() = 0;
  /// Shares the memory in which messages of this key's edge arrive from another rank: as long as
  /// the caller holds it, messages that were received and not released stay as they are, whatever
  /// becomes of the channel.
  virtual std::shared_ptr<SlotMemory> keep(const MessageKey& key) = 0;
  /// Frees the slots that this key's edge kept from an earlier configuration and gives the sender
  /// its credits.
  virtual void free_kept(const MessageKey& key) = 0;
  /// Blocks until every buffer handed to send() has left this rank, those whose event is still to
  /// come too.
  virtual void flush() = 0;

  virtual std::optional<Wait> waiting() const = 0;
  virtual ChannelCounts counts() const = 0;
  /// Wakes every waiting thread; later calls throw until the next open(). If closed twice, the
  /// first reason stays.
  virtual void close(const std::string& reason) = 0;
};

}  // namespace troupe::transport
