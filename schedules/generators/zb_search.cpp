#include "schedules/generators/zb_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "schedules/generators/families.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {
namespace {

/// The three switches of the heuristic; all eight settings are tried.
struct Switches {
  bool bubble_before_first_b;
  bool prioritize_b;
  bool no_bubble_greedy;
};

// Memory in halves of a microbatch: M_B = 2, M_W = 1.
constexpr int kForwardMemory = 2;
constexpr int kInputMemory = -1;
constexpr int kWeightMemory = -1;

/// One greedy run of the search. `place` puts the next action of a kind on a stage at the earliest
/// time.
class Run {
 public:
  Run(const Plan& plan, const Costs& costs, int cap, Switches switches)
      : p_(plan.num_ranks()),
        m_(plan.num_microbatches),
        cap_(cap),
        hop_(costs.hop),
        switches_(switches),
        stages_(p_) {
    const std::vector<StageCosts> of_chunk = chunk_costs(plan, costs);
    for (int j = 0; j < p_; ++j) {
      stages_[j].costs = of_chunk[j];
      stages_[j].forward_ends.reserve(m_);
      stages_[j].input_ends.reserve(m_);
    }
  }

  /// Runs the search. False if the cap is too low for these switches.
  bool run() {
    warm_up();
    for (int i = 1; i < m_; ++i) {
      if (!round()) return false;
    }
    for (int j = 0; j < p_; ++j) place_all_w(j);
    return true;
  }

  double span() const {
    double longest = 0;
    for (const Stage& stage : stages_) longest = std::max(longest, stage.clock - stage.start);
    return longest;
  }
  const std::vector<Action>& order(int j) const { return stages_[j].order; }

 private:
  struct Stage {
    StageCosts costs;
    double clock = 0;
    double start = 0;
    double idle = 0;  ///< idle time after the first forward
    int memory = 0;
    int weights = 0;
    std::vector<double> forward_ends, input_ends;  ///< by microbatch
    std::vector<Action> order;

    int forwards() const { return static_cast<int>(forward_ends.size()); }
    int inputs() const { return static_cast<int>(input_ends.size()); }
    bool w_waits() const { return weights < inputs(); }
  };

  /// When the stage's next F or I can read its input; none if it has no neighbour to wait for.
  std::optional<double> arrival(int j, Op op) const {
    if (op == Op::F && j > 0) return stages_[j - 1].forward_ends[stages_[j].forwards()] + hop_;
    if (op == Op::I && j + 1 < p_) return stages_[j + 1].input_ends[stages_[j].inputs()] + hop_;
    return {};
  }

  void place(int j, Op op) {
    Stage& stage = stages_[j];
    const double start = std::max(stage.clock, arrival(j, op).value_or(0));
    if (stage.order.empty()) stage.start = start;
    if (stage.forwards() > 0) stage.idle += start - stage.clock;
    stage.clock = start + duration(stage.costs, op);
    if (op == Op::F) {
      stage.order.push_back({j, op, stage.forwards()});
      stage.forward_ends.push_back(stage.clock);
      stage.memory += kForwardMemory;
    } else if (op == Op::I) {
      stage.order.push_back({j, op, stage.inputs()});
      stage.input_ends.push_back(stage.clock);
      stage.memory += kInputMemory;
    } else {
      stage.order.push_back({j, op, stage.weights++});
      stage.memory += kWeightMemory;
    }
  }

  void place_all_w(int j) {
    while (stages_[j].w_waits()) place(j, Op::W);
  }

  /// How much longer a stage may idle without becoming the idlest stage.
  double slack(int j) const {
    double most = 0;
    for (const Stage& stage : stages_) most = std::max(most, stage.idle);
    return most - stages_[j].idle;
  }

  /// Places W in the time in which the stage would wait for the input of its next F or I.
  void fill(int j, Op op) {
    const std::optional<double> arrives = arrival(j, op);
    if (!arrives) return;
    Stage& stage = stages_[j];
    while (stage.w_waits() && stage.clock + stage.costs.weight_gradient <= *arrives) {
      place(j, Op::W);
    }
    if (!stage.w_waits() || stage.clock >= *arrives) return;
    if (switches_.no_bubble_greedy || *arrives - stage.clock > slack(j)) place(j, Op::W);
  }

  /// Places as many forwards before the first I as fit until its gradient arrives.
  void warm_up() {
    for (int j = 0; j < p_; ++j) place(j, Op::F);
    std::vector<int> extra(p_, 0);
    double first_input_end = stages_[p_ - 1].clock + stages_[p_ - 1].costs.input_gradient;
    for (int j = p_ - 2; j >= 0; --j) {
      const Stage& stage = stages_[j];
      const double due = first_input_end + hop_;
      double time = stage.clock;
      while (1 + extra[j] < m_ && (extra[j] + 2) * kForwardMemory <= cap_ &&
             (switches_.bubble_before_first_b ? time + stage.costs.forward <= due : time < due)) {
        ++extra[j];
        time += stage.costs.forward;
      }
      first_input_end = std::max(time, due) + stage.costs.input_gradient;
    }
    for (int j = 1; j < p_; ++j) {
      // Forwards read what the stage before has computed.
      extra[j] = std::min(extra[j], extra[j - 1]);
      while (extra[j] > 0 && extra[j] >= extra[j - 1] && 1 + extra[j] < m_) --extra[j];
    }
    for (int j = 0; j < p_; ++j) {
      for (int k = 0; k < extra[j]; ++k) place(j, Op::F);
    }
    for (int j = p_ - 1; j >= 0; --j) place(j, Op::I);
  }

  /// Whether a stage that is ahead of the next one may run further ahead before its next I.
  bool wants_forward(int j) const {
    const Stage& stage = stages_[j];
    if (stage.forwards() == m_) return false;
    if (!switches_.prioritize_b || j + 1 == p_) return true;
    const Stage& next = stages_[j + 1];
    if (stage.forwards() < next.forwards() + 2) return true;
    const double due = next.clock + next.costs.forward + next.costs.input_gradient + hop_;
    if (stage.clock >= due) return false;
    double room = 0;
    int memory = stage.memory + kForwardMemory;
    for (int w = stage.weights; memory > cap_ && w < stage.inputs(); ++w) {
      room += stage.costs.weight_gradient;
      memory += kWeightMemory;
    }
    return stage.clock + stage.costs.forward + room <= due || due - stage.clock > slack(j);
  }

  /// Places at most one F and exactly one I on every stage.
  bool round() {
    std::vector<char> wants(p_);
    for (int j = 0; j < p_; ++j) wants[j] = wants_forward(j);
    for (int j = p_ - 2; j >= 0; --j) wants[j] = wants[j] && wants[j + 1];
    for (int j = 0; j < p_; ++j) {
      if (!wants[j]) continue;
      while (stages_[j].memory + kForwardMemory > cap_) {
        if (!stages_[j].w_waits()) return false;
        place(j, Op::W);
      }
      fill(j, Op::F);
      place(j, Op::F);
    }
    for (int j = p_ - 1; j >= 0; --j) {
      fill(j, Op::I);
      if (j == 0 && stages_[j].forwards() == m_) place_all_w(j);
      place(j, Op::I);
    }
    return true;
  }

  int p_, m_, cap_;
  double hop_;
  Switches switches_;
  std::vector<Stage> stages_;
};

std::string check(std::string_view kind, const ScheduleShape& shape) {
  const std::string wrong = check_chunks(kind, shape, 1);
  return wrong.empty() ? check_cap(kind, shape, 1) : wrong;
}

constexpr std::string_view kSource =
    "the automatic scheduler's heuristic: arXiv 2401.10241, section 3.1, as in the authors' code";

}  // namespace

Plan search_one_chunk(std::string_view kind, const ScheduleShape& shape, double cap) {
  const int whole_cap = static_cast<int>(std::min(std::floor(cap * kForwardMemory), 2e9));
  Plan plan = looped(kind, shape);
  double best = std::numeric_limits<double>::infinity();
  for (int setting = 0; setting < 8; ++setting) {
    Run run(plan, shape.costs, whole_cap,
            {.bubble_before_first_b = (setting & 4) != 0,
             .prioritize_b = (setting & 2) != 0,
             .no_bubble_greedy = (setting & 1) != 0});
    if (!run.run() || run.span() >= best) continue;
    best = run.span();
    for (int j = 0; j < shape.stages; ++j) plan.actions[j] = run.order(j);
  }
  return plan;
}

std::string check_cap(std::string_view kind, const ScheduleShape& shape, double least) {
  const double cap = shape.memory.value_or(least);
  if (cap >= least) return {};
  return concat(kind, " holds at least ", least,
                " microbatches' activations on a stage, but memory = ", cap,
                "; the nearest valid memory is ", least);
}

Generator zb_1p() {
  return {.name = "zb-1p",
          .source = kSource,
          .searched = true,
          .check = [](const ScheduleShape& shape) { return check("zb-1p", shape); },
          .generate =
              [](const ScheduleShape& shape) {
                return search_one_chunk("zb-1p", shape, shape.memory.value_or(shape.stages));
              }};
}

Generator zb_2p() {
  return {.name = "zb-2p",
          .source = kSource,
          .searched = true,
          .check = [](const ScheduleShape& shape) { return check("zb-2p", shape); },
          .generate =
              [](const ScheduleShape& shape) {
                return search_one_chunk("zb-2p", shape, shape.memory.value_or(2.0 * shape.stages));
              }};
}

}  // namespace troupe::schedules
