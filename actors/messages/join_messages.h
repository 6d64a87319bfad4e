#pragma once

#include <caf/actor.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/messages/worker_bootstrap.h"
#include "actors/topology/reports/clock_ahead.h"
#include "actors/topology/run_spec.h"

// How workers and hosts join a run, and what an agent, the process that stands for another host,
// exchanges with the launcher. An agent is the sender of its messages.

namespace troupe::actors {

inline constexpr std::uint32_t kProtocolVersion = 1;

/// A worker's first message. Nothing else in it is looked at before the token is right.
struct Hello {
  std::uint32_t version = kProtocolVersion;
  std::string token;
};

/// The answer to Hello: what the worker needs to build its stage, and whom it joins. On a host that
/// is not the launcher's, an agent has passed Hello on.
struct Welcome {
  std::string manifest;  ///< resolved manifest text
  caf::actor director;
};

// --- hosts

/// An agent's first message: the host that it offers. Nothing else in it is looked at before the
/// token is right.
struct HostHello {
  std::uint32_t version = kProtocolVersion;
  std::string token;
  Host host;
  std::uint64_t incarnation = 0;  ///< random, another each time that an agent is started
  std::string address;            ///< of the host, on the way to the launcher
  std::int64_t seconds_left = 0;  ///< until the host is taken away; 0: not known
  int door = 0;                   ///< port there at which another launcher finds the agent; 0: none
  /// What must be as on the launcher's host so that both compute the same bits, by its name, such
  /// as the program's build.
  std::map<std::string, std::string> traits;
};
/// The answer to HostHello.
struct HostWelcome {
  std::string refused;  ///< why the host cannot join; empty: it has joined
  int code = 0;         ///< exit code of a refused agent
};

/// The order to start a worker. The agent fills in where the worker finds it.
struct StartWorker {
  WorkerBootstrap bootstrap;
};
/// The order to kill workers. It is no error if one is already gone.
struct StopWorkers {
  std::vector<std::uint64_t> incarnations;
  bool all = false;
};
/// Sent every kHeartbeatInterval: the agent lives, and so do its workers, by incarnation, with the
/// processor time that each has used.
struct AgentBeat {
  std::map<std::uint64_t, double> cpu_seconds;
  double sent_s = 0;  ///< on the monotonic clock of the agent's host
  /// How far this clock is ahead of that of the launcher's host, from earlier beats and answers; an
  /// error below 0: not known yet.
  ClockAhead clock{.seconds = 0, .error_s = -1};
};
/// The answer to AgentBeat: the director's process lives.
struct DirectorBeat {
  std::uint64_t beat = 0;  ///< how many beats of this agent it has answered
  double asked_s = 0;      ///< AgentBeat::sent_s of the one that is answered
  double sent_s = 0;       ///< on the monotonic clock of the launcher's host
};
/// A worker of the agent has ended, or could not be started. As the event WorkerExited.
struct WorkerEnded {
  std::uint64_t incarnation = 0;
  int exit_code = -1;
  std::string cause;
};
/// The host was asked to leave the run.
struct HostLeaves {
  std::string cause;
};
/// The question how large these files are on the agent's host, and its answer: bytes in the same
/// order, -1 for a file that is not there.
struct FilesWanted {
  std::vector<std::string> paths;
  /// How large they should be: the answer comes when all are, or after `patience_s`. Empty: it
  /// comes at once.
  std::vector<std::int64_t> bytes;
  double patience_s = 0;
};
struct FilesSeen {
  std::vector<std::int64_t> bytes;
  std::vector<double> late_s;  ///< how long after the question each became as large as it should be
};
/// The order to end: the run is over, or the host no part of it.
struct Dismissed {
  int exit_code = 0;
  std::string reason;
};

}  // namespace troupe::actors
