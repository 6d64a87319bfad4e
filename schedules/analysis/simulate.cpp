#include "schedules/analysis/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "schedules/analysis/ahead.h"
#include "schedules/analysis/progress.h"

namespace troupe::schedules {
namespace {

/// When a result was computed, and when it was on the rank that reads it.
struct Result {
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  double computed = 0;
  double arrived = kNever;
  int rank = 0;  ///< the rank that computed it
};

/// The results of one kind of action, by chunk and microbatch.
class Results {
 public:
  explicit Results(const Plan& plan)
      : num_microbatches_(plan.num_microbatches),
        results_(static_cast<std::size_t>(plan.num_chunks()) * plan.num_microbatches) {}

  Result& at(int chunk, int microbatch) {
    return results_[static_cast<std::size_t>(chunk) * num_microbatches_ + microbatch];
  }

 private:
  int num_microbatches_;
  std::vector<Result> results_;
};

/// When a step begins that follows another: on each rank, and for what it may not run ahead.
struct Begin {
  std::vector<double> of_rank;
  double validated = 0;
};

/// The rules of progress(), with a clock for each rank.
class Clocks {
 public:
  Clocks(const Plan& plan, const Costs& costs, const Begin& begin)
      : plan_(plan),
        costs_(costs),
        validated_(begin.validated),
        chunk_costs_(chunk_costs(plan, costs)),
        forward_(plan),
        backward_(plan),
        clock_(begin.of_rank),
        live_(plan.num_ranks(), 0),
        lanes_(plan.num_ranks(), GatherLanes(costs.gathering)) {
    out_.peak_activations.resize(plan.num_ranks());
    out_.busy.resize(plan.num_ranks());
    out_.collective.resize(plan.num_ranks());
    out_.causes.resize(plan.num_ranks());
    out_.times.resize(plan.num_ranks());
    for (int rank = 0; rank < plan.num_ranks(); ++rank) {
      out_.times[rank].reserve(plan.actions[rank].size());
      ahead_.push_back(actions_ahead(plan, rank));
    }
  }

  bool ready(int rank, const Action& action) {
    return input(action).arrived < Result::kNever &&
           (!starts_pair(action) || input(next(rank)).arrived < Result::kNever);
  }

  void run(int rank, const Action& action) {
    double computing = computation(cost_of(action), action.op);
    work_ += computing;
    if (is_second_of_pair(rank) && costs_.pairs == Pairs::together) {
      finish_action(rank, action, out_.times[rank].back());
      return;
    }
    Result last = input(action);
    if (starts_pair(action) && input(next(rank)).arrived > last.arrived) last = input(next(rank));
    double start = std::max(clock_[rank], last.arrived);
    if (std::cmp_greater_equal(out_.times[rank].size(), ahead_[rank]))
      start = std::max(start, validated_);
    double length = duration(cost_of(action), action.op);
    if (starts_pair(action)) {
      const Action& backward = next(rank);
      const StageCosts of_forward = with_gathers(rank, action, start);
      length = pair_duration(of_forward, with_gathers(rank, backward, start), backward.op);
      computing += computation(cost_of(backward), backward.op);
    } else {
      if (is_second_of_pair(rank) && last.arrived <= clock_[rank])
        length -= hidden_with_previous(rank, action);
      length += wait_for_gathers(rank, action, start, length);
    }
    note_idle(rank, last, start);
    out_.busy[rank] += length;
    // The second action of a pair may take back what the first one counted.
    out_.collective[rank] += length - computing;
    clock_[rank] = start + length;
    finish_action(rank, action, {.start = start, .end = start + length});
  }

  Simulation finish() {
    for (const GatherLanes& lanes : lanes_) out_.gathers.push_back(lanes.gathers());
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      out_.wall = std::max(out_.wall, clock_[rank]);
      if (out_.times[rank].empty()) continue;
      out_.span = std::max(out_.span, clock_[rank] - out_.times[rank].front().start);
    }
    for (int rank = 0; rank < plan_.num_ranks(); ++rank) {
      // A given duration of pairs may be shorter than the computations of their actions.
      out_.collective[rank] = std::max(0.0, out_.collective[rank]);
      out_.idle.push_back(out_.wall - out_.busy[rank]);
      out_.causes[rank].cool_down = out_.wall - clock_[rank];
    }
    if (out_.span > 0) out_.bubble_rate = 1 - work_ / plan_.num_ranks() / out_.span;
    out_.step = (costs_.barrier == Barrier::global ? out_.wall : out_.span) + costs_.optimizer;
    return std::move(out_);
  }

 private:
  const StageCosts& cost_of(const Action& action) const { return chunk_costs_[action.chunk]; }
  /// Whether the action and the one after it start together.
  bool starts_pair(const Action& action) const {
    return action.overlaps_next && costs_.pairs == Pairs::together;
  }
  double wait_for_gathers(int rank, const Action& action, double start, double length) {
    return lanes_[rank].wait_of(action, start, length, cost_of(action).gathers);
  }
  /// The costs of the action's chunk if its waits for gathers were collectives.
  StageCosts with_gathers(int rank, const Action& action, double start) {
    StageCosts costs = cost_of(action);
    const double wait = wait_for_gathers(rank, action, start, duration(costs, action.op));
    CollectiveCosts& waits = costs.collectives;
    if (action.op == Op::F) waits.forward += wait;
    if (action.op == Op::I) waits.input_gradient += wait;
    if (action.op == Op::B) waits.backward = collective(costs, Op::B) + wait;
    return costs;
  }
  /// What the collectives of a pair take less than if its actions ran alone.
  double hidden_with_previous(int rank, const Action& backward) const {
    const Action& forward = plan_.actions[rank][out_.times[rank].size() - 1];
    return duration(cost_of(forward), forward.op) + duration(cost_of(backward), backward.op) -
           pair_duration(cost_of(forward), cost_of(backward), backward.op);
  }
  /// The action after the one that comes next on a rank.
  const Action& next(int rank) const { return plan_.actions[rank][out_.times[rank].size() + 1]; }
  bool is_second_of_pair(int rank) const {
    const std::size_t index = out_.times[rank].size();
    return index > 0 && plan_.actions[rank][index - 1].overlaps_next;
  }

  /// The result that the action reads, which arrives kNever as long as it was not computed.
  Result input(const Action& action) {
    const int i = action.microbatch;
    const int chunk = action.chunk;
    if (action.op == Op::F) {
      return plan_.is_first(chunk) ? Result{.arrived = 0} : forward_.at(chunk - 1, i);
    }
    if (action.op == Op::W) return {.arrived = 0};  // its I has run before it on the same rank
    if (!plan_.is_last(chunk)) return backward_.at(chunk + 1, i);
    const Result& own = forward_.at(chunk, i);
    return own.arrived < Result::kNever ? Result{.arrived = own.computed} : own;
  }

  void note_idle(int rank, const Result& input, double start) {
    const double gap = start - clock_[rank];
    Idle& idle = out_.causes[rank];
    if (out_.times[rank].empty()) {
      idle.warm_up = gap;
    } else if (gap > 0) {
      const double waited = std::clamp(input.computed - clock_[rank], 0.0, gap);
      if (waited > 0) idle.waiting[input.rank] += waited;
      idle.communication += gap - waited;
    }
  }

  void finish_action(int rank, const Action& action, Simulation::Span span) {
    out_.times[rank].push_back(span);
    if (action.op == Op::F) {
      out_.peak_activations[rank] = std::max(out_.peak_activations[rank], ++live_[rank]);
      send(rank, forward_.at(action.chunk, action.microbatch), span.end,
           plan_.is_last(action.chunk) ? rank : plan_.rank_of_chunk[action.chunk + 1]);
    }
    if (action.op == Op::B || action.op == Op::I) {
      send(rank, backward_.at(action.chunk, action.microbatch), span.end,
           plan_.is_first(action.chunk) ? rank : plan_.rank_of_chunk[action.chunk - 1]);
    }
    if (action.op == Op::B || action.op == Op::W) --live_[rank];
  }

  void send(int rank, Result& result, double end, int to) {
    result = {.computed = end, .arrived = end, .rank = rank};
    if (to == rank) return;
    double departure = end;
    if (costs_.link > 0) {
      double& free = link_free_[{rank, to}];
      departure = free = std::max(free, end) + costs_.link;
    }
    result.arrived = departure + costs_.hop;
    if (costs_.sends == Sends::overlapped) return;
    out_.causes[rank].communication += result.arrived - std::min(result.arrived, clock_[rank]);
    clock_[rank] = std::max(clock_[rank], result.arrived);
  }

  const Plan& plan_;
  const Costs& costs_;
  const double validated_;
  std::vector<int> ahead_;  ///< by rank: actions that do not wait for validated_
  std::vector<StageCosts> chunk_costs_;
  Results forward_;
  Results backward_;
  std::vector<double> clock_;  ///< by rank: when it can go on
  std::vector<int> live_;
  std::vector<GatherLanes> lanes_;
  std::map<std::pair<int, int>, double> link_free_;  ///< by sender and receiver
  double work_ = 0;  ///< duration of all actions as if each ran alone
  Simulation out_;
};

std::optional<Simulation> simulate_one(const Plan& plan, const Costs& costs, const Begin& begin) {
  Clocks clocks(plan, costs, begin);
  std::vector<std::size_t> done(plan.num_ranks(), 0);
  if (!progress(plan, clocks, done)) return {};
  return clocks.finish();
}

/// The time from one step to the next of steps that each begin ahead of the validation of the one
/// before. After a few steps it stays the same, or repeats itself.
double step_ahead(const Plan& plan, const Costs& costs, const Simulation& first) {
  constexpr int kSteps = 16;
  constexpr double kSame = 1e-12;
  std::vector<double> ends(plan.num_ranks());  // of a step, the last action's of each rank
  const auto note_ends = [&](const Simulation& step) {
    for (int rank = 0; rank < plan.num_ranks(); ++rank)
      if (!step.times[rank].empty()) ends[rank] = step.times[rank].back().end;
    return std::ranges::max(ends);
  };
  double end = note_ends(first), measured_from = 0, last = 0;
  for (int i = 0; i < kSteps; ++i) {
    if (i == kSteps / 2) measured_from = end;
    Begin next{.of_rank = ends, .validated = end};
    for (double& begin : next.of_rank) begin += costs.optimizer;
    const double before = std::exchange(end, note_ends(*simulate_one(plan, costs, next)));
    const double is = end - before, was = std::exchange(last, is);
    if (i > 1 && std::abs(is - was) <= kSame * end) return is;
  }
  return (end - measured_from) / (kSteps - kSteps / 2);
}

}  // namespace

std::optional<Simulation> simulate(const Plan& plan, const Costs& costs) {
  auto simulation = simulate_one(
      plan, costs, {.of_rank = std::vector<double>(static_cast<std::size_t>(plan.num_ranks()))});
  if (simulation && costs.barrier == Barrier::ahead)
    simulation->step = step_ahead(plan, costs, *simulation);
  return simulation;
}

Simulation divided(Simulation s, double units) {
  for (double* time : {&s.wall, &s.span, &s.step}) *time /= units;
  for (auto* times : {&s.busy, &s.collective, &s.idle}) {
    for (double& time : *times) time /= units;
  }
  for (Idle& idle : s.causes) {
    for (double* time : {&idle.warm_up, &idle.cool_down, &idle.communication}) *time /= units;
    for (auto& [rank, time] : idle.waiting) time /= units;
  }
  for (std::vector<Simulation::Span>& times : s.times) {
    for (auto& [start, end] : times) {
      start /= units;
      end /= units;
    }
  }
  for (std::vector<Gather>& gathers : s.gathers) {
    for (Gather& gather : gathers) {
      gather.start /= units;
      gather.end /= units;
    }
  }
  return s;
}

}  // namespace troupe::schedules
