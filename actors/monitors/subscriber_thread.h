#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "actors/monitors/hub.h"

namespace troupe::actors {

/// A monitor on a thread of its own, which passes a hub's events to `consume` in batches. An
/// exception from `consume` ends only this monitor, with a note event to the others.
class SubscriberThread {
 public:
  using Consume = std::function<void(const Subscription::Batch&)>;
  /// The hub must outlive the thread. `name` is the monitor's name in the note.
  SubscriberThread(Hub& hub, std::string name, EventMask kinds, Consume consume);
  SubscriberThread(const SubscriberThread&) = delete;
  /// Passes on what is queued, then ends the thread.
  ~SubscriberThread();

 private:
  void loop();

  Hub& hub_;
  const std::string name_;
  const Consume consume_;
  const std::unique_ptr<Subscription> subscription_;
  std::thread thread_;
};

}  // namespace troupe::actors
