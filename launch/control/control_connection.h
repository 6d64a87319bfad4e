#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "actors/monitors/hub.h"
#include "actors/security/tls.h"
#include "launch/control/control_protocol.h"

namespace troupe::launch {

/// The newest events as JSON text, so that an event for many readers is converted once.
class EventTexts {
 public:
  const std::string& of(const actors::RunEvent& event);

 private:
  struct Entry {
    std::uint64_t sequence = 0;
    std::string text;
  };
  std::deque<Entry> newest_;
};

/// The frames {"events": [...], "dropped": n} for one attached reader, as many as it has granted.
/// An event that is too long for a frame is counted as dropped.
class EventFeed {
 public:
  static constexpr std::size_t kMaxFrameBytes = 256 * 1024;
  /// The most frames that a reader may have granted at a time.
  static constexpr std::uint64_t kMaxCredits = 1024;

  EventFeed(std::unique_ptr<actors::Subscription> subscription, std::string who);

  void grant(std::uint64_t frames);
  /// The next frame; empty if there are no events or no frame is granted.
  std::string next_frame(EventTexts& texts);
  const std::string& who() const { return who_; }
  /// The number of events that were dropped because this reader was too slow.
  std::uint64_t dropped() const { return dropped_ + unreported_ + subscription_->take(0).dropped; }

 private:
  /// Moves as many events from `taken_` as fit one frame into a list of texts.
  std::string next_events(EventTexts& texts);

  const std::unique_ptr<actors::Subscription> subscription_;
  const std::string who_;
  // Events taken from the queue and not yet sent.
  std::deque<std::shared_ptr<const actors::RunEvent>> taken_;
  std::uint64_t credits_ = 0;
  std::uint64_t unreported_ = 0;  // events dropped but not yet reported to the reader
  std::uint64_t dropped_ = 0;
};

/// The launcher's end of one accepted control connection. Never blocks.
class ControlConnection {
 public:
  using Clock = std::chrono::steady_clock;

  ControlConnection(actors::Link link, Clock::time_point until)
      : deadline(until), link_(std::move(link)) {}
  ControlConnection(const ControlConnection&) = delete;

  int fd() const { return link_.socket.fd(); }
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
  actors::Link link_;
  FrameReader in_{kMaxRequestBytes};
  std::string out_;
};

}  // namespace troupe::launch
