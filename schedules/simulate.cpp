#include "schedules/simulate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedules/progress.h"

namespace troupe::schedules {
namespace {

/// When the results of one kind of action were ready, by chunk and microbatch.
class EndTimes {
 public:
  explicit EndTimes(const Plan& plan)
      : num_microbatches_(plan.num_microbatches),
        times_(static_cast<std::size_t>(plan.num_chunks()) * plan.num_microbatches, kNotYet) {}

  double& at(int chunk, int microbatch) {
    return times_[static_cast<std::size_t>(chunk) * num_microbatches_ + microbatch];
  }
  bool has(int chunk, int microbatch) { return at(chunk, microbatch) != kNotYet; }

 private:
  static constexpr double kNotYet = -1;

  int num_microbatches_;
  std::vector<double> times_;
};

/// Durations of the actions of each rank's chunks.
std::vector<StageCosts> chunk_costs(const Plan& plan, const Costs& costs) {
  std::vector<int> chunks(plan.num_ranks(), 0);
  for (const int rank : plan.rank_of_chunk) ++chunks[rank];
  std::vector<StageCosts> out;
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    const StageCosts& whole = costs.stages[costs.stages.size() == 1 ? 0 : rank];
    const double v = std::max(chunks[rank], 1);
    out.push_back({.forward = whole.forward / v,
                   .input_gradient = whole.input_gradient / v,
                   .weight_gradient = whole.weight_gradient / v});
  }
  return out;
}

double duration(const StageCosts& costs, Op op) {
  switch (op) {
    case Op::F:
      return costs.forward;
    case Op::I:
      return costs.input_gradient;
    case Op::W:
      return costs.weight_gradient;
    case Op::B:
      break;
  }
  return costs.input_gradient + costs.weight_gradient;
}

/// The rules of progress(), with a clock for each rank.
class Clocks {
 public:
  Clocks(const Plan& plan, const Costs& costs)
      : plan_(plan),
        hop_(costs.hop),
        costs_(chunk_costs(plan, costs)),
        forward_(plan),
        backward_(plan),
        live_(plan.num_ranks(), 0) {
    out_.peak_activations.resize(plan.num_ranks());
    out_.busy.resize(plan.num_ranks());
    out_.times.resize(plan.num_ranks());
    for (int rank = 0; rank < plan.num_ranks(); ++rank) {
      out_.times[rank].reserve(plan.actions[rank].size());
    }
  }

  bool ready(int, const Action& action) { return std::isfinite(input_time(action)); }

  void run(int rank, const Action& action) {
    std::vector<Simulation::Span>& times = out_.times[rank];
    const double clock = times.empty() ? 0 : times.back().end;
    const double cost = duration(costs_[rank], action.op);
    const double start = std::max(clock, input_time(action));
    times.push_back({.start = start, .end = start + cost});
    out_.busy[rank] += cost;
    if (action.op == Op::F) {
      forward_.at(action.chunk, action.microbatch) = start + cost;
      out_.peak_activations[rank] = std::max(out_.peak_activations[rank], ++live_[rank]);
    }
    if (action.op == Op::B || action.op == Op::I) {
      backward_.at(action.chunk, action.microbatch) = start + cost;
    }
    if (action.op == Op::B || action.op == Op::W) --live_[rank];
  }

  Simulation finish() {
    double total_busy = 0;
    for (std::size_t rank = 0; rank < out_.times.size(); ++rank) {
      total_busy += out_.busy[rank];
      if (out_.times[rank].empty()) continue;
      const double end = out_.times[rank].back().end;
      out_.wall = std::max(out_.wall, end);
      out_.span = std::max(out_.span, end - out_.times[rank].front().start);
    }
    for (const double busy : out_.busy) out_.idle.push_back(out_.wall - busy);
    if (out_.wall > 0) {
      out_.bubble_rate = 1 - total_busy / static_cast<double>(out_.busy.size()) / out_.wall;
    }
    return std::move(out_);
  }

 private:
  /// When what the action reads is on its rank; infinite while it was not computed.
  double input_time(const Action& action) {
    const int rank = plan_.rank_of_chunk[action.chunk];
    const int i = action.microbatch;
    const auto arrival = [&](EndTimes& ends, int chunk) {
      if (!ends.has(chunk, i)) return std::numeric_limits<double>::infinity();
      return ends.at(chunk, i) + (plan_.rank_of_chunk[chunk] == rank ? 0 : hop_);
    };
    if (action.op == Op::F) return action.chunk == 0 ? 0 : arrival(forward_, action.chunk - 1);
    if (action.op == Op::W) return arrival(backward_, action.chunk);
    if (action.chunk + 1 == plan_.num_chunks()) return arrival(forward_, action.chunk);
    return arrival(backward_, action.chunk + 1);
  }

  const Plan& plan_;
  double hop_;
  std::vector<StageCosts> costs_;
  EndTimes forward_;
  EndTimes backward_;
  std::vector<int> live_;
  Simulation out_;
};

}  // namespace

std::optional<Simulation> simulate(const Plan& plan, const Costs& costs) {
  Clocks clocks(plan, costs);
  std::vector<std::size_t> done(plan.num_ranks(), 0);
  progress(plan, clocks, done);
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    if (done[rank] < plan.actions[rank].size()) return {};
  }
  return clocks.finish();
}

}  // namespace troupe::schedules
