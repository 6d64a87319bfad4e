#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "actors/monitors/hub.h"

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

}  // namespace troupe::launch
