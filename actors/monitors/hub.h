#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "actors/monitors/event.h"
#include "actors/monitors/tap_request.h"

namespace troupe::actors {

class Subscription;

/// Passes a run's events to its subscribers, in the launching process. Any thread may publish;
/// subscribers may come and go at any time. Every subscriber has a bounded queue of its own: when
/// it is full, the oldest event is dropped and counted, and the subscriber learns of the loss.
/// Publishing waits for no subscriber; it costs a lock and a pointer for each of them.
class Hub {
 public:
  struct SubscribeOptions {
    EventMask kinds = all_events();
    std::size_t capacity = 1024;  ///< most events in the queue; at least 1
    /// The tensors to look at. A subscriber with a tap gets only the tensors that match it, and no
    /// more than its number of samples.
    std::optional<TapRequest> tap;
    /// Called after an event has been queued, from the publisher's thread; it must be quick and
    /// must not call the hub.
    std::function<void()> wake;
  };
  struct Counts {
    std::size_t subscribers = 0;
    std::uint64_t published = 0;
    std::uint64_t dropped = 0;  ///< over all subscribers, including former ones
    double busy_s = 0;          ///< time spent in publish(), over all threads
  };

  Hub();
  Hub(const Hub&) = delete;
  ~Hub();

  /// Sets the event's time and sequence number and queues it for the subscribers of its kind.
  void publish(RunEvent event);
  /// Whether there is a subscriber of Body. If not, an event that is costly to make need not be
  /// made.
  template <typename Body>
  bool wanted() const {
    return (mask_of<Body>().to_ullong() & wanted_.load(std::memory_order_relaxed)) != 0;
  }
  /// The taps of all subscribers that still want samples, each once and with the number of samples
  /// left; at most kMaxTaps.
  std::vector<TapRequest> taps() const;
  /// The subscription may outlive the hub.
  std::unique_ptr<Subscription> subscribe(SubscribeOptions options);
  /// Ends publishing: subscribers take what is queued and then see the end.
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

/// A subscriber's end of its queue. Only close() may be called by a thread while another uses it.
/// Its destructor unsubscribes.
class Subscription {
 public:
  struct Batch {
    std::vector<std::shared_ptr<const RunEvent>> events;  ///< events, oldest first
    std::uint64_t dropped = 0;  ///< events lost before the first of these, since the last take()
    bool closed = false;        ///< whether these are the last events
  };
  Subscription(const Subscription&) = delete;
  ~Subscription();

  /// Takes at most `max` queued events, without waiting.
  Batch take(std::size_t max);
  /// Waits until an event is queued, the hub has closed, or the timeout has passed.
  void wait(std::chrono::milliseconds timeout);
  /// Stops the queueing of events; those that are queued can still be taken. Callable from any
  /// thread.
  void close();

 private:
  friend class Hub;
  Subscription(std::shared_ptr<Hub::Queues> queues, std::shared_ptr<Hub::Queue> queue);
  std::shared_ptr<Hub::Queues> queues_;
  std::shared_ptr<Hub::Queue> queue_;
};

}  // namespace troupe::actors
