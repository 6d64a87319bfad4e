#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "launch/control/control_protocol.h"
#include "launch/control/event_feed.h"

namespace troupe::launch {

/// The launcher's end of one accepted control connection. Never blocks.
class ControlConnection {
 public:
  using Clock = std::chrono::steady_clock;

  /// Takes ownership of a non-blocking socket.
  ControlConnection(int fd, Clock::time_point until) : deadline(until), fd_(fd) {}
  ControlConnection(const ControlConnection&) = delete;
  ~ControlConnection();

  int fd() const { return fd_; }
  /// The events to poll() for. While a reply waits to be sent, no request is read; an attached
  /// reader's grants are read at any time.
  short wanted_events() const;
  /// Reads some of the bytes that have arrived. Returns false if the other side has closed the
  /// connection.
  bool read();
  /// The next whole frame that has been read; none if there is none.
  std::optional<std::string> next_frame() { return in_.next(); }
  /// Whether an invalid frame has arrived.
  bool broken() const { return in_.broken(); }

  void enqueue(const std::string& frame) { out_ += frame; }
  /// Sends what the socket takes. Returns false if the other side has closed the connection.
  bool write();
  bool all_said() const { return out_.empty(); }
  /// Sends events as long as the reader takes them. Returns false if it has closed the connection.
  bool feed_events(EventTexts& texts);

  bool trusted = false;        ///< the peer has shown the token
  bool waits_for_end = false;  ///< the peer has asked for a stop and is told how the run ended
  std::uint64_t order = 0;     ///< number of the order whose answer the peer waits for; 0: none
  std::unique_ptr<EventFeed> feed;  ///< events for an attached reader; null: not attached
  Clock::time_point deadline;       ///< applies unless the peer waits for an answer or is attached

 private:
  const int fd_;
  FrameReader in_{kMaxRequestBytes};
  std::string out_;
};

}  // namespace troupe::launch
