#pragma once

#include <cstdint>
#include <vector>

#include "actors/messages/messages.h"
#include "actors/monitors/event.h"
#include "actors/topology/assembly.h"
#include "actors/worker/plan_runner.h"

namespace troupe::actors {

/// Actions of one message: far below the control plane's 64 KiB.
inline constexpr std::size_t kActionsPerMessage = 512;

/// What `runner` recorded of its last step, as messages to the director; the last one is marked.
std::vector<TracedActions> traced_actions(const PlanRunner& runner, const RankAssembly& part,
                                          int rank, const RunStep& order);

/// Adds to a vote how long the step waited for messages, by the rank that sends them.
void add_waits(Prepared& vote, const PlanRunner& runner, const RankAssembly& part, int rank);

}  // namespace troupe::actors
