#pragma once

#include <caf/actor.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/hosts/hosts.h"
#include "actors/messages/takeover_messages.h"
#include "actors/security/secure_links.h"

namespace troupe::actors {

/// How long an agent may take to accept a connection: one on a host that is there does at once.
inline constexpr std::chrono::seconds kCallPatience{2};

/// Connects to the doors of agents, many at a time, and calls `on_call` for each, from several
/// threads, with the agent or why it cannot be reached. Blocks until all are done.
void call_agents(SecureLinks& links, const std::vector<AgentRecord>& agents,
                 const std::function<void(const AgentRecord&, const caf::actor& agent,
                                          const std::string& fault)>& on_call);

/// Asks the agents of a run whom they obey, and nothing else.
class AgentInquiry {
 public:
  /// `own`: credentials of a director of the run.
  static std::unique_ptr<AgentInquiry> create(const Credentials& own,
                                              const std::vector<AgentRecord>& agents);
  virtual ~AgentInquiry() = default;

  /// What each says, in the order of the records; none for one that does not answer.
  virtual std::vector<std::optional<AgentState>> ask() = 0;
};

}  // namespace troupe::actors
