#include <algorithm>

#include "schedules/analysis/credits.h"
#include "schedules/analysis/progress.h"
#include "schedules/analysis/rules.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {
namespace {

/// What a stopped rank waits for, which with the credits of capacities() is always an input.
struct Wait {
  std::string what;
  int from = 0;  ///< rank
};

Wait wait_of(const Plan& plan, const Action& action) {
  const auto message = [&](const char* kind, int chunk) {
    const int from = plan.rank_of_chunk[chunk];
    return Wait{.what = concat("the ", kind, " of microbatch ", action.microbatch, " from chunk ",
                               chunk, " on rank ", from),
                .from = from};
  };
  if (action.op == Op::F) return message("activation", action.chunk - 1);
  return message("gradient", action.chunk + 1);
}

/// Runs a step without clocks or buffers, in which the two actions of a pair start together.
class PairRun {
 public:
  explicit PairRun(const Plan& plan)
      : plan_(plan),
        computed_(2, std::vector<char>(static_cast<std::size_t>(plan.num_chunks()) *
                                       plan.num_microbatches)),
        done_(plan.num_ranks(), 0) {}

  /// The first pair that never starts; none if the plan comes to its end.
  std::optional<Violation> first_stopped() {
    if (progress(plan_, *this, done_)) return {};
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      const std::vector<Action>& order = plan_.actions[rank];
      if (done_[rank] == order.size() || !order[done_[rank]].overlaps_next) continue;
      const int index = static_cast<int>(done_[rank]);
      return violation(plan_, "SCHED-7", rank, index,
                       "the plan waits for ever: " + name(plan_, rank, index) +
                           " starts together with " + to_string(order[index + 1]) +
                           ", but an input of one of them waits for the other");
    }
    return {};
  }

  // ready() and run() are the rules of progress().
  bool ready(int rank, const Action& action) {
    return has_input(action) &&
           (!action.overlaps_next || has_input(plan_.actions[rank][done_[rank] + 1]));
  }
  void run(int, const Action& action) {
    if (action.op != Op::W) computed(action.op == Op::F, action.chunk, action.microbatch) = 1;
  }

 private:
  char& computed(bool forward, int chunk, int microbatch) {
    return computed_[forward ? 0 : 1]
                    [static_cast<std::size_t>(chunk) * plan_.num_microbatches + microbatch];
  }
  bool has_input(const Action& action) {
    const auto& [chunk, op, i, overlaps] = action;
    if (op == Op::W) return true;
    if (op == Op::F) return plan_.is_first(chunk) || computed(true, chunk - 1, i);
    return plan_.is_last(chunk) ? computed(true, chunk, i) : computed(false, chunk + 1, i);
  }

  const Plan& plan_;
  std::vector<std::vector<char>> computed_;  ///< [forward, backward][chunk and microbatch]
  std::vector<std::size_t> done_;
};

}  // namespace

std::optional<Violation> check_end(const Plan& plan) {
  CreditRun run(plan, capacities(plan));
  if (run.advance()) return PairRun(plan).first_stopped();

  // Each stopped rank waits for another stopped one, so that following the waits leads into a
  // cycle.
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
    out.message += concat("; and so on around a circle of ", path.size(), " ranks");
  }
  return out;
}

}  // namespace troupe::schedules
