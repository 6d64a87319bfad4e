#pragma once

#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <chrono>
#include <string>

#include "actors/messages/message_inspection.h"

namespace troupe::actors {

/// CAF's settings and message types: few threads, work shared through a condition variable (work
/// stealing sleeps up to 10 ms), heartbeats between processes on. A worker's actors never block and
/// share one thread; a launcher has a second one, because its director calls the observer.
class ControlPlaneConfig : public caf::actor_system_config {
 public:
  explicit ControlPlaneConfig(std::size_t num_threads);
};

/// Every request between actors has this deadline: CAF's own default is for ever.
inline constexpr std::chrono::seconds kRequestDeadline{30};
/// Stages report what they do this often; the director counts the reports that are missing.
inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};

/// Seconds of the machine's monotonic clock.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Base of all our actors. Sets every handler that CAF would otherwise answer by printing, ignoring
/// or ending the actor: unknown messages bounce, errors and exceptions reach on_failure(), exits of
/// others are ignored (liveness is the business of on_down()), and so is an order to exit from
/// another process. Handlers run one at a time and never
/// block (but those of an actor with a thread of its own).
class ControlActor : public caf::event_based_actor {
 public:
  explicit ControlActor(caf::actor_config& config);

 protected:
  /// A handler threw, or a request was not answered.
  virtual void on_failure(const std::string& what) = 0;
  /// Another process has sent an error, as CAF does for a message that its receiver does not know.
  /// For one of this process on_failure() is called.
  virtual void on_error_of_peer(const std::string& what) { on_failure(what); }
  /// A monitored actor has ended or its process is gone.
  virtual void on_down(const caf::actor_addr& who) = 0;
};

}  // namespace troupe::actors
