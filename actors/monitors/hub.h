#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/messages/tap_request.h"
#include "actors/monitors/event.h"

namespace troupe::actors {

class Subscription;

/// Where a run's events meet its monitors, in the launching process. Any thread publishes, any
/// number of subscribers come and go. Every subscriber has a bounded queue of its own: when it is
/// full, the oldest event is dropped, counted, and its reader told. Publishing waits for no reader;
/// its cost is a lock and a pointer a subscriber.
class Hub {
 public:
  struct SubscribeOptions {
    EventMask kinds = all_events();
    std::size_t capacity = 1024;  ///< events; at least 1
    /// Tensors to look at. Who names some is told of no others, and of no more than it asked for.
    std::optional<TapRequest> tap;
    /// Called after an event has been queued, from the publisher's thread; it must be quick and
    /// must not call the hub.
    std::function<void()> wake;
  };
  struct Counts {
    std::size_t subscribers = 0;
    std::uint64_t published = 0;
    std::uint64_t dropped = 0;  ///< over all subscribers, gone ones included
    double busy_s = 0;          ///< spent in publish(), over all threads
  };

  Hub();
  Hub(const Hub&) = delete;
  ~Hub();

  /// Stamps time and sequence number and hands the event to whoever subscribes to its kind.
  void publish(RunEvent event);
  /// Whether anybody subscribes to Body: an event that costs something to make need not be made.
  template <typename Body>
  bool wanted() const {
    return (mask_of<Body>().to_ullong() & wanted_.load(std::memory_order_relaxed)) != 0;
  }
  /// What subscribers still want to look at, each once, with the samples that are left of each; at
  /// most kMaxTaps.
  std::vector<TapRequest> taps() const;
  /// The subscription may outlive the hub.
  std::unique_ptr<Subscription> subscribe(SubscribeOptions options);
  /// No event comes after this one: readers take what is queued and see the end.
  void close();
  Counts counts() const;

 private:
  friend class Subscription;
  struct Queue;
  struct Queues;
  std::shared_ptr<Queues> queues_;
  std::atomic<std::uint64_t> wanted_{0};
  std::atomic<std::uint64_t> published_{0};
  std::atomic<std::uint64_t> busy_ns_{0};
};

/// A subscriber's end. Used by one thread at a time, except close(); destroying it detaches.
class Subscription {
 public:
  struct Batch {
    std::vector<std::shared_ptr<const RunEvent>> events;  ///< oldest first
    std::uint64_t dropped = 0;  ///< events lost before the first of these, since the last take
    bool closed = false;        ///< nothing will come after these
  };
  Subscription(const Subscription&) = delete;
  ~Subscription();

  /// At most `max` of what is queued; does not wait.
  Batch take(std::size_t max);
  /// Waits until there is something to take, the hub has closed, or the time is over.
  void wait(std::chrono::milliseconds timeout);
  /// No event comes any more; what is queued can still be taken. From any thread.
  void close();

 private:
  friend class Hub;
  Subscription(std::shared_ptr<Hub::Queues> queues, std::shared_ptr<Hub::Queue> queue);
  std::shared_ptr<Hub::Queues> queues_;
  std::shared_ptr<Hub::Queue> queue_;
};

}  // namespace troupe::actors
