#pragma once

#include <cstdint>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/monitors/event.h"
#include "actors/topology/assembly.h"
#include "actors/worker/step/plan_runner.h"

namespace troupe::actors {

/// The number of actions in one message, which stays far below the control plane's limit of 64 KiB.
inline constexpr std::size_t kActionsPerMessage = 512;

/// The actions that `runner` recorded in its last step, and the collectives beside them, as
/// messages to the director; the last message is marked.
std::vector<TracedActions> traced_actions(const PlanRunner& runner, const RankAssembly& part,
                                          int rank, const RunStep& order,
                                          std::span<const stages::CollectiveSpan> collectives);

/// Adds to a vote how long the step waited for messages, by sending rank.
void add_waits(Prepared& vote, const PlanRunner& runner, const RankAssembly& part, int rank);

}  // namespace troupe::actors
