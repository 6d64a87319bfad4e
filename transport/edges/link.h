#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "transport/edges/named_wait.h"
#include "transport/memory/slot_memory.h"
#include "transport/wire/header.h"

namespace troupe::transport {

/// One send or receive that a link has under way. For the link's own use.
struct Transfer {
  void (*on_done)(Transfer& self, bool ok) = nullptr;
  void* owner = nullptr;
};

/// A message on its way out. Header and payload must not change until the link calls on_departed().
struct OutgoingTensor : Transfer {
  HeaderBytes header;
  std::size_t header_bytes = 0;
  const std::byte* payload = nullptr;
  std::size_t payload_bytes = 0;  ///< 0 if the message is a header alone
  std::size_t tensor_bytes = 0;   ///< also if they were written into the receiver's memory
};

/// Where the payload of an arriving message goes.
struct IncomingTensor : Transfer {
  std::byte* data = nullptr;
};

/// Events that a link reports to its channel, always with the link's lock held.
class LinkEvents {
 public:
  /// A message has arrived. Returns where to put the payload of a tensor, after which on_payload()
  /// or on_payload_lost() follows, or null to ignore the payload.
  virtual IncomingTensor* on_message(const Header& header, std::size_t payload_bytes) = 0;
  virtual void on_unreadable(std::size_t header_bytes) = 0;
  /// A message of an older configuration or another run was dropped before it came here.
  virtual void on_stale() = 0;
  virtual void on_payload(IncomingTensor& tensor) = 0;
  virtual void on_payload_lost(IncomingTensor& tensor) = 0;
  /// The link does not need the buffer any more: the message has left, or can no longer be sent.
  virtual void on_departed(OutgoingTensor& tensor) = 0;
  virtual void on_peer_lost(int rank, const std::string& why) = 0;

 protected:
  ~LinkEvents() = default;
};

/// How a channel reaches its peers and waits: what a transport adds to EdgeChannel. All state of
/// the channel is guarded by the link's lock; every call but lock() is made with it held.
class Link {
 public:
  virtual ~Link() = default;
  virtual void lock() = 0;
  virtual void unlock() = 0;
  /// Returns with the lock held again: after a notify(), at the deadline, or spuriously.
  virtual void wait(std::unique_lock<Link>& lock, Clock::time_point deadline) = 0;
  virtual void notify() = 0;

  /// Whether a peer and this process, both on one host, can write into each other's memory.
  virtual bool shares_memory_with(int peer) = 0;
  /// Memory for the slots of an edge, which its sender can map if it is on this host.
  virtual std::shared_ptr<SlotMemory> allocate(int sender, std::size_t bytes) = 0;
  /// Maps the slots that a receiver has granted. Null if they cannot be mapped in this process.
  virtual std::unique_ptr<MappedSlots> map(int receiver, const SegmentName& name,
                                           std::size_t bytes) = 0;
  /// Starts to send. on_departed() follows, at once or later.
  virtual void send(int to, OutgoingTensor& tensor) = 0;
  /// Copies a header and sends it without a payload.
  virtual void send_control(int to, const Header& header) = 0;
};

}  // namespace troupe::transport
