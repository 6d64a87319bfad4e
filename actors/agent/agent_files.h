#pragma once

#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>
#include <filesystem>
#include <stop_token>
#include <string>

#include "actors/agent/bring_actor.h"
#include "actors/agent/host_agent.h"
#include "actors/agent/parts_actor.h"
#include "actors/messages/join_messages.h"

namespace troupe::actors {

/// What an agent's actor does about files: leaves it to actors with threads of their own. Its
/// functions are called from the actor's handlers.
class AgentFiles {
 public:
  AgentFiles(caf::event_based_actor& agent, const AgentSpec& spec, OwnThreads& own_threads)
      : agent_(agent), spec_(spec), own_threads_(own_threads) {}

  /// The launcher says what this host does not see. Brought comes back to the agent.
  void bring(const FilesAway& away);
  /// What the launcher is told of that.
  FilesBrought brought(const Brought& result);
  /// The answer to a worker of this agent.
  caf::result<FilesHere> need(const FilesNeeded& needed);
  /// Where the worker writes.
  void place(WorkerBootstrap& worker);
  /// Whether what the worker said last is told to the launcher first: then LogEnds comes back.
  bool tells_of(const WorkerExited& exit);
  void look_for(const FilesWanted& wanted);
  void end();

 private:
  caf::event_based_actor& agent_;
  const AgentSpec& spec_;
  OwnThreads& own_threads_;
  std::stop_source stop_;
  caf::actor bringer_, parts_;
  caf::actor launcher_;        ///< FilesAway::source
  std::filesystem::path run_;  ///< the host's own folder of the run; empty: it sees the run's
};

/// What a thread of the agent has found. Sent only within the agent.
struct FilesLookedFor {
  FilesSeen seen;
};

}  // namespace troupe::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::actors::FilesLookedFor)
