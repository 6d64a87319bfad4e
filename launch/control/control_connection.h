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

  /// Takes over a socket that does not block.
  ControlConnection(int fd, Clock::time_point until) : deadline(until), fd_(fd) {}
  ControlConnection(const ControlConnection&) = delete;
  ~ControlConnection();

  int fd() const { return fd_; }
  /// What to poll() for: answers before questions, except that a reader may always grant.
  short wanted_events() const;
  /// Reads some of what is there. False when the other side has closed.
  bool read();
  /// The next whole frame of it.
  std::optional<std::string> next_frame() { return in_.next(); }
  /// A frame that is no frame has come.
  bool broken() const { return in_.broken(); }

  void enqueue(const std::string& frame) { out_ += frame; }
  /// Sends what fits. False when the other side is gone.
  bool write();
  bool all_said() const { return out_.empty(); }
  /// Sends events while the reader takes them. False when it is gone.
  bool feed_events(EventTexts& texts);

  bool trusted = false;             ///< has shown the token
  bool waits_for_end = false;       ///< asked for a stop
  std::uint64_t order = 0;          ///< whose answer it waits for; 0: none
  std::unique_ptr<EventFeed> feed;  ///< attached
  Clock::time_point deadline;       ///< holds unless it waits for an answer or is attached

 private:
  const int fd_;
  FrameReader in_{kMaxRequestBytes};
  std::string out_;
};

}  // namespace troupe::launch
