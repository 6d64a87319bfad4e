#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "actors/monitors/hub.h"

namespace troupe::actors {

/// A monitor on a thread of its own: hands a hub's events to `consume`, batch by batch. Whatever
/// `consume` throws ends this monitor alone, with a note to the others.
class SubscriberThread {
 public:
  using Consume = std::function<void(const Subscription::Batch&)>;
  /// The hub outlives it. `name` is for the note.
  SubscriberThread(Hub& hub, std::string name, EventMask kinds, Consume consume);
  SubscriberThread(const SubscriberThread&) = delete;
  /// Hands over what is queued, then ends.
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
