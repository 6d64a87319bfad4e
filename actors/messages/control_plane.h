#pragma once

#include <caf/actor_system_config.hpp>
#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/event_based_actor.hpp>
#include <chrono>
#include <exception>
#include <string>

#include "actors/messages/message_inspection.h"

namespace troupe::actors {

/// CAF's settings and message types: few threads, work sharing through a condition variable (work
/// stealing sleeps up to 10 ms), and heartbeats between processes. A worker's actors never block
/// and share one thread; a launcher's actors share two, because its director calls the observer.
class ControlPlaneConfig : public caf::actor_system_config {
 public:
  explicit ControlPlaneConfig(std::size_t num_threads);

 private:
  void add_messages_of_agents();
};

/// The version of CAF that the program was built with, as "0.17.6".
std::string caf_version();

/// The deadline of every request between actors; by default CAF waits for ever.
inline constexpr std::chrono::seconds kRequestDeadline{30};
/// The interval between two heartbeats of a stage. The launcher counts time without a heartbeat.
inline constexpr std::chrono::milliseconds kHeartbeatInterval{500};

/// The time of the machine's monotonic clock, in seconds.
inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline std::chrono::milliseconds to_milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(seconds));
}

/// What an actor sends itself to do something again and again.
struct Tick {};

/// What an exception says; what the machine lacks is named.
std::string text_of(const std::exception& exception);

/// Base class of all actors of this program. Replaces CAF's default handlers, which print a
/// message, ignore it or end the actor: unknown messages are returned to their sender, errors and
/// exceptions reach on_failure(), exits of other actors are ignored (on_down() watches liveness),
/// and so is an order to exit from another process. Handlers run one at a time and never block,
/// except those of an actor with a thread of its own.
class ControlActor : public caf::event_based_actor {
 public:
  explicit ControlActor(caf::actor_config& config);

 protected:
  /// Called if a handler threw, or a request was not answered.
  virtual void on_failure(const std::string& what) = 0;
  /// Called if another process has sent an error, as CAF does for a message that the receiver does
  /// not know. For an error of this process on_failure() is called.
  virtual void on_error_of_peer(const std::string& what) { on_failure(what); }
  /// Called if a monitored actor has ended or its process is gone.
  virtual void on_down(const caf::actor_addr&) {}
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::Tick)
