#include <algorithm>
#include <array>
#include <climits>
#include <deque>

#include "schedules/generators/families.h"

namespace troupe::schedules {
namespace {

/// The order of a rank that holds two chunks, of a V or of two directions: 0 is the one that the
/// rank begins with.
class Order {
 public:
  /// Microbatches of each chunk begin at `first`; actions of those from `end` on are left out.
  Order(std::array<int, 2> chunks, std::array<int, 2> first, int end = INT_MAX)
      : chunks_(chunks), forwards_(first), backwards_(first), end_(end) {}

  /// Adds actions so many times: "F0 I1" is the next F of chunk 0, then the next I of chunk 1; "W1"
  /// is the oldest W of chunk 1 that waits, and "W" the oldest of all; "F0+B1" run together.
  void add(std::string_view actions, int times = 1) {
    for (int i = 0; i < times; ++i)
      for (std::size_t at = 0; at < actions.size(); ++at) {
        const char letter = actions[at];
        if (letter == '+') actions_.back().overlaps_next = true;
        if (letter == 'W') add_weight(actions.substr(at + 1, 1));
        if (letter == 'F' || letter == 'B' || letter == 'I')
          add_next(static_cast<Op>(letter), actions[at + 1] - '0');
      }
  }
  int forwards(int c) const { return forwards_[c]; }
  /// How many W of a chunk wait.
  int waiting(int c) const {
    return static_cast<int>(std::ranges::count(waiting_, chunks_[c], &Action::chunk));
  }
  std::vector<Action> finish() { return std::move(actions_); }

 private:
  void push(const Action& action) {
    if (action.microbatch < end_) actions_.push_back(action);
  }
  void add_next(Op op, int c) {
    const int microbatch = (op == Op::F ? forwards_ : backwards_)[c]++;
    push({chunks_[c], op, microbatch});
    if (op == Op::I) waiting_.push_back({chunks_[c], Op::W, microbatch});
  }
  /// `which`: the digit of a chunk, or anything else for both.
  void add_weight(std::string_view which) {
    const auto oldest = std::ranges::find_if(waiting_, [&](const Action& action) {
      return (which != "0" && which != "1") || action.chunk == chunks_[which[0] - '0'];
    });
    push(*oldest);
    waiting_.erase(oldest);
  }

  std::array<int, 2> chunks_;
  std::array<int, 2> forwards_, backwards_;  ///< next microbatch of each
  int end_;
  std::deque<Action> waiting_;  ///< W, in the order of their I
  std::vector<Action> actions_;
};

/// The eight steps of DualPipe on the k-th of h ranks from the ends to the middle, n microbatches a
/// direction. In the middle the first pair of step 4 runs apart; from the middle of step 6 on
/// backwards are split into I and W.
std::vector<Action> dual_pipe_order(Order order, int h, int k, int n) {
  const int rest = h - k - 1;
  order.add("F0", 2 * rest);
  order.add("F0 F1", k + 1);
  order.add("I1 W F1", rest);
  for (int j = 0; j < n - 2 * h + k + 1; ++j)
    order.add(j == 0 && rest == 0 ? "F0 B1 F1+B0" : "F0+B1 F1+B0");
  order.add("B1 F1+B0", rest);
  for (int j = 0; j < 2 * (k + 1); ++j)
    order.add(j > k ? (j % 2 == 0 ? "I1" : "I0") : (j % 2 == 0 ? "B1" : "B0"));
  order.add("W I0", rest);
  order.add("W", k + 1);
  return order.finish();
}

std::string check_dual_pipe_v(const ScheduleShape& shape) {
  const std::string wrong = check_chunks("dualpipe-v", shape, 2);
  return wrong.empty() ? check_two_per_stage("dualpipe-v", shape) : wrong;
}

std::string check_dual_pipe(const ScheduleShape& shape) {
  const std::string wrong = check_two_pipelines("dualpipe", shape);
  return wrong.empty() ? check_two_per_stage("dualpipe", shape) : wrong;
}

Plan generate_dual_pipe_v(const ScheduleShape& shape) {
  Plan plan = waved("dualpipe-v", shape);
  const int p = shape.stages;
  for (int r = 0; r < p; ++r)
    plan.actions[r] = dual_pipe_order(Order({r, 2 * p - 1 - r}, {0, 0}), p, r, shape.microbatches);
  return plan;
}

/// The second copy's stages are chunks p...2p-1, so that rank r holds chunks r and 2p-1-r.
Plan generate_dual_pipe(const ScheduleShape& shape) {
  Plan plan = waved("dualpipe", shape);
  plan.num_copies = 2;
  const int p = shape.stages;
  const int half = shape.microbatches / 2;
  for (int r = 0; r < p; ++r) {
    const bool upper = r >= p / 2;
    const Order order =
        upper ? Order({2 * p - 1 - r, r}, {half, 0}) : Order({r, 2 * p - 1 - r}, {0, half});
    plan.actions[r] = dual_pipe_order(order, p / 2, std::min(r, p - 1 - r), half);
  }
  return plan;
}

/// ZB-V by hand, built for n = max(m, 2p-1) microbatches, of which the extra ones are left out.
std::vector<Action> zb_v_order(int p, int r, int m) {
  const int n = std::max(m, 2 * p - 1);
  Order order({r, 2 * p - 1 - r}, {0, 0}, m);
  order.add("F0", 2 * (p - r) - 1);
  order.add("F1 F0", r);
  order.add("F1 I1 W1", p - r);
  while (order.forwards(1) < n)
    order.add(order.forwards(0) < n ? "F0 I0 W0 F1 I1 W1" : "I0 W0 F1 I1 W1");
  order.add("I0 I1", r);
  order.add("I0 W0", p - r);
  order.add("W1", order.waiting(1));
  order.add("W0", order.waiting(0));
  return order.finish();
}

Plan generate_zb_v(const ScheduleShape& shape) {
  Plan plan = waved("zb-v-static", shape);
  for (int r = 0; r < shape.stages; ++r)
    plan.actions[r] = zb_v_order(shape.stages, r, shape.microbatches);
  return plan;
}

}  // namespace

Generator dual_pipe() {
  return {.name = "dualpipe",
          .source = "DualPipe: DeepSeek-V3 technical report, section 3.2.1; order as in its code",
          .chunks = 2,
          .copies = 2,
          .check = check_dual_pipe,
          .generate = generate_dual_pipe};
}

Generator dual_pipe_v() {
  return {.name = "dualpipe-v",
          .source = "DualPipeV: DualPipe cut in half, as in its authors' code",
          .chunks = 2,
          .check = check_dual_pipe_v,
          .generate = generate_dual_pipe_v};
}

Generator zb_v_static() {
  return {.name = "zb-v-static",
          .source = "ZB-V by hand: arXiv 2401.10241, section 6; order as PyTorch's ZBVZeroBubble",
          .chunks = 2,
          .check = [](const ScheduleShape& shape) { return check_chunks("zb-v-static", shape, 2); },
          .generate = generate_zb_v};
}

}  // namespace troupe::schedules
