#include "schedules/deadlock.h"

#include <algorithm>

#include "schedules/credits.h"
#include "schedules/mark.h"

namespace troupe::schedules {
namespace {

/// What a stopped rank waits for. With the credits of capacities() that is always an input.
struct Wait {
  std::string what;
  int from = 0;  ///< rank
};

Wait wait_of(const Plan& plan, const Action& action) {
  const auto message = [&](const char* kind, int chunk) {
    const int from = plan.rank_of_chunk[chunk];
    return Wait{.what = "the " + std::string(kind) + " of microbatch " +
                        std::to_string(action.microbatch) + " from chunk " + std::to_string(chunk) +
                        " on rank " + std::to_string(from),
                .from = from};
  };
  if (action.op == Op::F) return message("activation", action.chunk - 1);
  return message("gradient", action.chunk + 1);
}

}  // namespace

std::optional<Violation> check_end(const Plan& plan) {
  CreditRun run(plan, capacities(plan));
  if (run.advance()) return {};

  // Each stopped rank waits for another stopped one, so following the waits ends in a circle.
  constexpr std::size_t kShown = 8;
  const auto is_stopped = [&](int rank) { return run.done()[rank] < plan.actions[rank].size(); };
  int rank = 0;
  while (!is_stopped(rank)) ++rank;
  std::vector<int> path;
  while (std::ranges::find(path, rank) == path.end()) {
    path.push_back(rank);
    rank = wait_of(plan, plan.actions[rank][run.done()[rank]]).from;
  }
  path.erase(path.begin(), std::ranges::find(path, rank));

  Violation out{.rule = "SCHED-7",
                .rank = rank,
                .index = static_cast<int>(run.done()[rank]),
                .message = "the plan waits for ever: ",
                .grid = ""};
  for (std::size_t i = 0; i < std::min(path.size(), kShown); ++i) {
    const int index = static_cast<int>(run.done()[path[i]]);
    out.message += (i > 0 ? "; " : "") + name(plan, path[i], index) + " waits for " +
                   wait_of(plan, plan.actions[path[i]][index]).what;
    out.grid += mark(plan, path[i], index);
  }
  if (path.size() > kShown) {
    out.message += "; and so on around a circle of " + std::to_string(path.size()) + " ranks";
  }
  return out;
}

}  // namespace troupe::schedules
