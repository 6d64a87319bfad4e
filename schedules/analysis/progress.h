#pragma once

#include <algorithm>
#include <vector>

#include "schedules/plan/plan.h"

namespace troupe::schedules {

/// Runs as many of the plan's actions as can run, each rank's in its order, and counts them in
/// `done`, by rank. `rules.ready(rank, action)` says whether a rank's next action may run;
/// `rules.run(rank, action)` runs it. An action that is ready must stay ready until it runs, and
/// running an action of a chunk may make ready only actions of its rank and of the chunks before
/// and after it. Then the result is the same in whatever order ranks take their turns, and every
/// action is examined a bounded number of times. Returns whether all have run.
template <typename Rules>
bool progress(const Plan& plan, Rules& rules, std::vector<std::size_t>& done) {
  std::vector<int> turns;
  std::vector<char> waits_for_turn(plan.num_ranks(), 0);
  const auto wake = [&](int rank) {
    if (!waits_for_turn[rank]) turns.push_back(rank);
    waits_for_turn[rank] = 1;
  };
  for (int rank = plan.num_ranks() - 1; rank >= 0; --rank) wake(rank);
  while (!turns.empty()) {
    const int rank = turns.back();
    turns.pop_back();
    waits_for_turn[rank] = 0;
    const std::vector<Action>& order = plan.actions[rank];
    for (std::size_t& next = done[rank]; next < order.size(); ++next) {
      const Action& action = order[next];
      if (!rules.ready(rank, action)) break;
      rules.run(rank, action);
      if (action.chunk > 0) wake(plan.rank_of_chunk[action.chunk - 1]);
      if (action.chunk + 1 < plan.num_chunks()) wake(plan.rank_of_chunk[action.chunk + 1]);
    }
  }
  return std::ranges::equal(done, plan.actions, {}, {},
                            [](const std::vector<Action>& order) { return order.size(); });
}

}  // namespace troupe::schedules
