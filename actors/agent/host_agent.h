#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/messages/join_messages.h"
#include "actors/security/credentials.h"
#include "actors/topology/reports/outcome.h"

namespace troupe::actors {

/// What an agent offers, and to whom.
struct AgentSpec {
  HostHello hello;          ///< its token is the credentials'; without seconds_left
  double ends_s = 0;        ///< when the host is taken away, on the monotonic clock; 0: not known
  Credentials credentials;  ///< of a host
  std::string address;      ///< of the launcher's process
  int port = 0;             ///< at which it accepts hosts
  double patience_s = 0;    ///< how long a launcher that cannot be reached is tried again
  /// Whether the launcher, while it is tried, still waits; empty: that cannot be known.
  std::function<bool()> is_wanted;
  /// Command line of a worker process, as ClusterOptions::worker_command.
  std::vector<std::string> worker_command;
  std::string device;  ///< WorkerBootstrap::device of its workers
  std::string ports;   ///< of these it opens one to other launchers; empty: any that is free
  /// The folder of what this host keeps of runs, made if it is missing; called from a thread of the
  /// agent, and throws Error if there is no place for one.
  std::function<std::string()> cache;
};

/// The process that stands for a host of a run whose launcher is on another one: it starts the
/// workers there, tells of their ends, and ends all of them when the launcher is gone or has not
/// answered for too long, and no other has taken over the run in time. Its workers reach the
/// director through it, over its one connection.
class HostAgent {
 public:
  static std::unique_ptr<HostAgent> create(const AgentSpec& spec);
  virtual ~HostAgent() = default;

  /// Joins and serves until the host is dismissed, and returns how that ended: with exit code 0 at
  /// the run's end. No worker is left then. Throws Error{unavailable} if the launcher cannot be
  /// reached.
  virtual Outcome run() = 0;
  /// Asks the director to go on without this host. May be called from any thread, also before the
  /// host has joined, which it then never does.
  virtual void leave(const std::string& cause) = 0;
  /// Ends the workers and run(). May be called from any thread.
  virtual void end(const Outcome& outcome) = 0;
};

}  // namespace troupe::actors
