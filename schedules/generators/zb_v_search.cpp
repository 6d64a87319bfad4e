#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>

#include "schedules/generators/families.h"
#include "schedules/generators/zb_search.h"

namespace troupe::schedules {
namespace {

/// Before which actions the heuristic places a W while they wait for their input anyway.
struct Switches {
  bool fill_b;
  bool fill_f;
};

// Memory in halves of a chunk's microbatch: M_B = 2, M_W = 1.
constexpr int kForwardMemory = 2;
constexpr int kInputMemory = -1;
constexpr int kWeightMemory = -1;
constexpr double kNotYet = -1;

/// One greedy run over a V of 2p chunks: every rank has chunk 0 on the way forth and chunk 1 on the
/// way back.
class Run {
 public:
  /// `approved` holds the idle times of an earlier run, by rank; it is empty in a first run.
  Run(const Plan& plan, const Costs& costs, int cap, Switches switches,
      std::vector<double> approved)
      : p_(plan.num_ranks()),
        m_(plan.num_microbatches),
        cap_(cap),
        hop_(costs.hop),
        switches_(switches),
        approved_(std::move(approved)),
        ranks_(p_) {
    const std::vector<StageCosts> of_chunk = chunk_costs(plan, costs);
    for (int r = 0; r < p_; ++r) {
      ranks_[r].costs = {of_chunk[r], of_chunk[2 * p_ - 1 - r]};
      ranks_[r].forward_ends.fill(std::vector<double>(m_, kNotYet));
      ranks_[r].input_ends.fill(std::vector<double>(m_, kNotYet));
    }
  }

  /// Runs the search. False if these switches lead to no plan: the heuristic is made for ranks that
  /// are alike.
  bool run() {
    warm_up();
    for (int k = 0; k < 2 * m_; ++k) {
      place_inputs();
      for (int r = 0; r < p_; ++r) place_forward(r);
    }
    for (int r = 0; r < p_; ++r) {
      while (!ranks_[r].waiting.empty()) place_w(r);
    }
    const std::array all{m_, m_};
    return !failed_ && std::ranges::all_of(ranks_, [&](const Rank& rank) {
      return rank.forwards == all && rank.inputs == all;
    });
  }

  double span() const {
    double longest = 0;
    for (const Rank& rank : ranks_) longest = std::max(longest, rank.clock - rank.start);
    return longest;
  }
  std::vector<double> idle() const {
    std::vector<double> out;
    for (const Rank& rank : ranks_) out.push_back(rank.idle);
    return out;
  }
  const std::vector<Action>& order(int r) const { return ranks_[r].order; }

 private:
  struct Rank {
    std::array<StageCosts, 2> costs;
    double clock = 0;
    double start = 0;
    double idle = 0;  ///< idle time after the first forward
    int memory = 0;
    std::array<int, 2> forwards{}, inputs{};
    std::array<std::vector<double>, 2> forward_ends, input_ends;  ///< by microbatch
    struct Waiting {
      int c;
      int microbatch;
    };
    std::deque<Waiting> waiting;  ///< W, in the order of their I
    std::vector<Action> order;
  };

  int chunk_of(int r, int c) const { return c == 0 ? r : 2 * p_ - 1 - r; }

  /// Whether what the next F or I of a rank's chunk c reads has been placed.
  bool has_input(int r, int c, Op op) const {
    const Rank& rank = ranks_[r];
    const int i = op == Op::F ? rank.forwards[c] : rank.inputs[c];
    if (i == m_ || (op == Op::I && i >= rank.forwards[c])) return false;
    const int other = neighbour(c, op) + r;
    if (other < 0) return true;
    const auto ends = op == Op::F ? &Rank::forward_ends : &Rank::input_ends;
    const bool turns = other == p_;  // at the turn the other chunk's result is the input
    return (turns ? (rank.*ends)[1 - c][i] : (ranks_[other].*ends)[c][i]) != kNotYet;
  }
  /// Offset from a rank to the one that sends the input of a chunk's F or I: -1 or 1.
  static int neighbour(int c, Op op) { return (c == 0) == (op == Op::F) ? -1 : 1; }

  /// When the next F or I of a rank's chunk c can read its input; none if it comes from the same
  /// rank or needs none.
  std::optional<double> arrival(int r, int c, Op op) const {
    const Rank& rank = ranks_[r];
    const int other = r + neighbour(c, op);
    if (other < 0 || other >= p_) return {};
    if (op == Op::F) return ranks_[other].forward_ends[c][rank.forwards[c]] + hop_;
    return ranks_[other].input_ends[c][rank.inputs[c]] + hop_;
  }

  void start_action(int r, int c, Op op, double arrives) {
    Rank& rank = ranks_[r];
    const double start = std::max(rank.clock, arrives);
    if (rank.order.empty()) rank.start = start;
    if (rank.forwards[0] > 0) rank.idle += start - rank.clock;
    rank.clock = start + duration(rank.costs[c], op);
  }

  void place(int r, int c, Op op) {
    const bool fits = op != Op::F || ranks_[r].memory + kForwardMemory <= cap_;
    failed_ = failed_ || !has_input(r, c, op) || !fits;
    if (failed_) return;
    start_action(r, c, op, arrival(r, c, op).value_or(0));
    Rank& rank = ranks_[r];
    const int i = op == Op::F ? rank.forwards[c]++ : rank.inputs[c]++;
    (op == Op::F ? rank.forward_ends : rank.input_ends)[c][i] = rank.clock;
    rank.memory += op == Op::F ? kForwardMemory : kInputMemory;
    rank.order.push_back({chunk_of(r, c), op, i});
    if (op == Op::I) rank.waiting.push_back({c, i});
  }

  /// Places the oldest W that waits.
  void place_w(int r) {
    Rank& rank = ranks_[r];
    const auto [c, i] = rank.waiting.front();
    rank.waiting.pop_front();
    start_action(r, c, Op::W, 0);
    rank.memory += kWeightMemory;
    rank.order.push_back({chunk_of(r, c), Op::W, i});
  }

  double weight_cost(int r) const {
    const Rank& rank = ranks_[r];
    return rank.costs[rank.waiting.front().c].weight_gradient;
  }

  /// How much longer a rank may idle. In a first run it may idle until it is the idlest rank; in a
  /// rerun, by the difference between its idle time and that of the idlest rank in the earlier run.
  double slack(int r) const {
    double most = 0;
    for (const Rank& rank : ranks_) most = std::max(most, rank.idle);
    if (!approved_.empty()) most = std::max(most, std::ranges::max(approved_) - approved_[r]);
    return most - ranks_[r].idle;
  }

  /// Places W in the time in which the rank would wait for an input. With `force` it also places a
  /// W that takes longer than that, if the rank may not idle any more.
  void fill(int r, int c, Op op, bool force) {
    if (!has_input(r, c, op)) return;
    const std::optional<double> arrives = arrival(r, c, op);
    if (!arrives) return;
    Rank& rank = ranks_[r];
    while (!rank.waiting.empty() && rank.clock + weight_cost(r) <= *arrives) place_w(r);
    if (!rank.waiting.empty() && force && *arrives - rank.clock > slack(r)) place_w(r);
  }

  void warm_up() {
    for (int r = 0; r < p_; ++r) place(r, 0, Op::F);
    for (int r = p_ - 1; r >= 0; --r) {
      if (r + 1 < p_) add_early_forwards(r);
      place(r, 1, Op::F);
    }
    int c = 0;
    for (int r = 1; r < p_; ++r) {
      while (!failed_ && is_behind(r)) {
        for (int j = p_ - 1; j >= r; --j) {
          if (ranks_[j].forwards[c] < m_) place(j, c, Op::F);
        }
        c = 1 - c;
      }
    }
  }

  /// Places forwards of chunk 0 on ranks 0 to r, as many as fit before chunk 1's first input comes
  /// to r.
  void add_early_forwards(int r) {
    const double due = ranks_[r + 1].forward_ends[1][0] + hop_;
    const Rank& rank = ranks_[r];
    while (!failed_ && rank.memory + (1 + r) * 2 * kForwardMemory <= cap_ &&
           rank.clock + rank.costs[0].forward <= due && rank.forwards[0] < m_) {
      for (int j = 0; j <= r; ++j) place(j, 0, Op::F);
    }
  }

  /// Whether rank r has run fewer forwards than the warm-up needs in relation to rank r-1.
  bool is_behind(int r) const {
    const auto& before = ranks_[r - 1].forwards;
    const auto& own = ranks_[r].forwards;
    return own[0] + own[1] < before[0] + before[1] || (own[1] <= before[1] && before[1] < m_);
  }

  int next_input_chunk(int r) const {
    const Rank& rank = ranks_[r];
    if (rank.inputs[0] >= rank.inputs[1]) return 1;
    const bool here = r == p_ - 1 || ranks_[r + 1].input_ends[0][rank.inputs[0]] != kNotYet;
    return here || rank.inputs[1] == m_ ? 0 : 1;
  }

  /// Places one I on every rank, first those on the way back, from the turn on.
  void place_inputs() {
    std::vector<int> chunk(p_);
    for (int r = 0; r < p_; ++r) chunk[r] = next_input_chunk(r);
    for (int r = p_ - 1; r >= 0; --r) {
      if (chunk[r] != 0) continue;
      fill(r, 0, Op::I, true);
      place(r, 0, Op::I);
    }
    for (int r = 0; r < p_; ++r) {
      if (chunk[r] != 1) continue;
      fill(r, 1, Op::I, switches_.fill_b);
      place(r, 1, Op::I);
    }
  }

  std::optional<int> next_forward_chunk(int r) const {
    const auto& done = ranks_[r].forwards;
    if (done[1] >= done[0]) return 0;
    if (r == p_ - 1 || ranks_[r + 1].forward_ends[1][done[1]] != kNotYet) return 1;
    const bool left = done[0] < m_;
    if (left && (r == 0 || ranks_[r - 1].forward_ends[0][done[0]] != kNotYet)) return 0;
    return {};
  }

  void place_forward(int r) {
    Rank& rank = ranks_[r];
    if (rank.forwards[1] == m_) return;
    const std::optional<int> c = next_forward_chunk(r);
    if (!c) return;
    while (rank.memory + kForwardMemory > cap_ && !rank.waiting.empty()) place_w(r);
    fill(r, *c, Op::F, switches_.fill_f);
    place(r, *c, Op::F);
  }

  int p_, m_, cap_;
  double hop_;
  Switches switches_;
  std::vector<double> approved_;
  std::vector<Rank> ranks_;
  bool failed_ = false;
};

std::string check(const ScheduleShape& shape) {
  const std::string wrong = check_chunks("zb-v", shape, 2);
  return wrong.empty() ? check_cap("zb-v", shape, shape.stages) : wrong;
}

Plan generate(const ScheduleShape& shape) {
  return search_v("zb-v", shape, shape.memory.value_or(shape.stages));
}

}  // namespace

Plan search_v(std::string_view kind, const ScheduleShape& shape, double cap) {
  const int whole_cap = static_cast<int>(std::min(std::floor(cap * 2 * kForwardMemory), 2e9));
  Plan plan = zb_v_static().generate(shape);  // needs no more memory, and exists for any costs
  plan.kind = kind;
  double best = std::numeric_limits<double>::infinity();
  const auto keep = [&](const Run& run) {
    if (run.span() >= best) return;
    best = run.span();
    for (int r = 0; r < shape.stages; ++r) plan.actions[r] = run.order(r);
  };
  for (const Switches switches :
       {Switches{true, true}, {true, false}, {false, true}, {false, false}}) {
    std::vector<double> approved;
    for (double idlest = std::numeric_limits<double>::infinity();;) {
      Run run(plan, shape.costs, whole_cap, switches, approved);
      if (!run.run()) break;
      keep(run);
      approved = run.idle();
      if (std::ranges::max(approved) >= idlest) break;
      idlest = std::ranges::max(approved);
    }
  }
  return plan;
}

Generator zb_v() {
  return {.name = "zb-v",
          .source = "the V's heuristic: arXiv 2401.10241, section 6, as in the authors' code",
          .chunks = 2,
          .searched = true,
          .check = check,
          .generate = generate};
}

}  // namespace troupe::schedules
