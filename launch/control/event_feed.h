#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "actors/monitors/hub.h"

namespace troupe::launch {

/// The newest events as JSON text: many readers, one conversion.
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

/// What one attached reader is sent: {"events": [...], "dropped": n} frames, as many as it has
/// granted. An event too long for a frame of its own is counted as dropped.
class EventFeed {
 public:
  static constexpr std::size_t kMaxFrameBytes = 256 * 1024;
  /// Frames that a reader may have granted at once.
  static constexpr std::uint64_t kMaxCredits = 1024;

  EventFeed(std::unique_ptr<actors::Subscription> subscription, std::string who);

  void grant(std::uint64_t frames);
  /// The next frame; empty while there is nothing to tell or nothing is granted.
  std::string next_frame(EventTexts& texts);
  const std::string& who() const { return who_; }
  /// Events that this reader was too slow for.
  std::uint64_t dropped() const { return dropped_ + untold_ + subscription_->take(0).dropped; }

 private:
  /// Moves what fits one frame from `taken_` into a list of texts.
  std::string next_events(EventTexts& texts);

  const std::unique_ptr<actors::Subscription> subscription_;
  const std::string who_;
  std::deque<std::shared_ptr<const actors::RunEvent>> taken_;  // from the queue, not yet sent
  std::uint64_t credits_ = 0;
  std::uint64_t untold_ = 0;  // dropped and not yet told
  std::uint64_t dropped_ = 0;
};

}  // namespace troupe::launch
