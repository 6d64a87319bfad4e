#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "transport/header.h"
#include "transport/named_wait.h"
#include "transport/slot_memory.h"

namespace troupe::transport {

/// One send or receive that a link has under way. For the link's own use.
struct Transfer {
  void (*on_done)(Transfer& self, bool ok) = nullptr;
  void* owner = nullptr;
};

/// A message on its way out. Header and payload stay as they are until the link reports its end.
struct OutgoingTensor : Transfer {
  HeaderBytes header;
  std::size_t header_bytes = 0;
  const std::byte* payload = nullptr;
  std::size_t payload_bytes = 0;  ///< 0: the header is all
};

/// Where the payload of an arriving message goes.
struct IncomingTensor : Transfer {
  std::byte* data = nullptr;
};

/// What a link tells its channel, always under the link's lock.
class LinkEvents {
 public:
  /// A message has arrived. For a tensor with a payload, where to put it (on_payload or
  /// on_payload_lost follows); null: ignore the payload.
  virtual IncomingTensor* on_message(const Header& header, std::size_t payload_bytes) = 0;
  virtual void on_unreadable(std::size_t header_bytes) = 0;
  /// A message of an older epoch or another run was dropped before it came here.
  virtual void on_stale() = 0;
  virtual void on_payload(IncomingTensor& tensor) = 0;
  virtual void on_payload_lost(IncomingTensor& tensor) = 0;
  /// The link needs the buffer no more, because the message left or because it cannot.
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
  /// Returns, the lock held again, after a notify(), at the deadline, or for no reason.
  virtual void wait(std::unique_lock<Link>& lock, Clock::time_point deadline) = 0;
  virtual void notify() = 0;

  virtual std::shared_ptr<SlotMemory> allocate(std::size_t bytes) = 0;
  /// Null where a granted edge's slots cannot be mapped here.
  virtual std::unique_ptr<MappedSlots> map(const SegmentName& name, std::size_t bytes) = 0;
  /// Starts to send. on_departed() follows, at once or later.
  virtual void send(int to, OutgoingTensor& tensor) = 0;
  /// Sends a header alone, from a copy.
  virtual void send_control(int to, const Header& header) = 0;
};

}  // namespace troupe::transport
