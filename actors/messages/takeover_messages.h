#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/messages/join_messages.h"
#include "actors/topology/configuration.h"

// What is exchanged when a launcher takes over a run from another one, which is gone or silent:
// with the agents of its hosts, whose doors it knows from their records, and through them with the
// workers. A term is the number of one launcher; the highest alone is obeyed.

namespace troupe::actors {

/// The question of a launcher whom an agent obeys. Nothing else happens.
struct AskAgent {
  std::string token;  ///< of the run
};
struct AgentState {
  HostHello hello;           ///< as it would join, without the token; no host: the token is wrong
  std::uint64_t term = 0;    ///< of its launcher; 0: the run has not begun
  bool is_orphaned = false;  ///< its launcher is gone, or has not answered for too long
  double silent_s = 0;       ///< since its launcher was heard last
};

/// The order of a launcher to obey it from now on.
struct TakeOver {
  std::string token;
  std::uint64_t term = 0;
};
/// The answer: the host joins.
struct TakenOver {
  std::string refused;  ///< why it does not obey; empty: it does
  HostHello hello;
  std::vector<std::uint64_t> workers;  ///< that wait for a director, by incarnation
};

/// The run has begun, or goes on, for an agent: from now on it keeps its workers for a while if its
/// launcher is lost. Those that it has from an earlier launcher may join the director.
struct RunBegins {
  std::uint64_t term = 0;
  double wait_s = 0;    ///< how long it keeps them; 0: not at all
  double silent_s = 0;  ///< recovery.silent
  std::string token;    ///< of the director, for Hello and Rejoin
  std::string address;  ///< at which the launcher lets hosts join
  int port = 0;
};

/// A worker's stage tells the agent of its host, its door, where it is.
struct Resident {
  std::uint64_t incarnation = 0;
};
/// Its agent tells it of another director. It asks for the Welcome of that, and rejoins.
struct NewDirector {
  std::uint64_t term = 0;
  std::string token;
};

/// A configuration whose state a worker has.
struct HeldConfiguration {
  ConfigurationHeader header;
  int rank = 0;          ///< of the worker in it
  bool reached = false;  ///< all ranks have reached it
};
/// What a step was committed with.
struct CommittedStep {
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  std::int64_t targets = 0;
};
/// A worker of an earlier director is ready for the orders of this one.
struct Rejoin {
  std::string token;
  Member member;
  std::uint32_t configuration =
      0;  ///< the newest that it knows of; orders of older ones come too late
  std::vector<HeldConfiguration> held;  ///< the newest first
  std::vector<CommittedStep> commits;   ///< the last ones, ascending
};

}  // namespace troupe::actors
