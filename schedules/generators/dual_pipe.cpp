#include <algorithm>
#include <array>
#include <deque>

#include "schedules/generators/families.h"

namespace troupe::schedules {
namespace {

/// A rank's order over two directions (DualPipe) or the two chunks of a V (DualPipeV): 0 is the one
/// that the rank begins with.
class Order {
 public:
  Order(std::array<int, 2> chunks, std::array<int, 2> first_microbatch)
      : chunks_(chunks), forwards_(first_microbatch), backwards_(first_microbatch) {}

  void F(int d) { actions_.push_back({chunks_[d], Op::F, forwards_[d]++}); }
  void B(int d) { actions_.push_back({chunks_[d], Op::B, backwards_[d]++}); }
  void I(int d) {
    actions_.push_back({chunks_[d], Op::I, backwards_[d]++});
    waiting_.push_back(actions_.back());
  }
  /// Adds the oldest W that waits.
  void W() {
    actions_.push_back({waiting_.front().chunk, Op::W, waiting_.front().microbatch});
    waiting_.pop_front();
  }
  /// Adds F of one direction together with B of the other.
  void pair(int forward, int backward) {
    F(forward);
    actions_.back().overlaps_next = true;
    B(backward);
  }
  std::vector<Action> finish() { return std::move(actions_); }

 private:
  std::array<int, 2> chunks_;
  std::array<int, 2> forwards_, backwards_;  ///< next microbatch of each
  std::deque<Action> waiting_;
  std::vector<Action> actions_;
};

/// The eight steps of DualPipe on the k-th of h ranks from the ends to the middle, n microbatches a
/// direction: 1: F0 x 2(h-k-1); 2: (F0, F1) x (k+1); 3: (I1, W, F1) x (h-k-1); 4: (F0 with B1, F1
/// with B0) x (n-2h+k+1), the first pair apart in the middle; 5: (B1, F1 with B0) x (h-k-1);
/// 6: (B1, B0) x (k+1), split into I and W from the middle on; 7: (W, I0) x (h-k-1); 8: W x (k+1).
std::vector<Action> order_of(Order order, int h, int k, int n) {
  const int rest = h - k - 1;
  for (int j = 0; j < 2 * rest; ++j) order.F(0);
  for (int j = 0; j < k + 1; ++j) {
    order.F(0);
    order.F(1);
  }
  for (int j = 0; j < rest; ++j) {
    order.I(1);
    order.W();
    order.F(1);
  }
  for (int j = 0; j < n - 2 * h + k + 1; ++j) {
    if (j == 0 && rest == 0) {
      order.F(0);
      order.B(1);
    } else {
      order.pair(0, 1);
    }
    order.pair(1, 0);
  }
  for (int j = 0; j < rest; ++j) {
    order.B(1);
    order.pair(1, 0);
  }
  for (int j = 0; j < 2 * (k + 1); ++j) {
    const int direction = 1 - j % 2;
    j > k ? order.I(direction) : order.B(direction);
  }
  for (int j = 0; j < rest; ++j) {
    order.W();
    order.I(0);
  }
  for (int j = 0; j < k + 1; ++j) order.W();
  return order.finish();
}

std::string check_two_per_stage(std::string_view kind, int microbatches, int least, int stages) {
  if (microbatches >= least) return {};
  return std::string(kind) + " needs at least 2 microbatches per stage, but microbatches = " +
         std::to_string(microbatches) + " is less than 2 x " + std::to_string(stages) +
         "; the nearest valid number of microbatches is " + std::to_string(least);
}

std::string check_v(const ScheduleShape& shape) {
  const std::string wrong = check_chunks("dualpipe-v", shape, 2);
  if (!wrong.empty()) return wrong;
  return check_two_per_stage("dualpipe-v", shape.microbatches, 2 * shape.stages, shape.stages);
}

std::string check(const ScheduleShape& shape) {
  std::string wrong = check_chunks("dualpipe", shape, 2);
  if (!wrong.empty()) return wrong;
  if (shape.stages % 2 != 0) {
    return "dualpipe runs two pipelines against each other over an even number of stages, but "
           "stages = " +
           std::to_string(shape.stages) + "; the nearest valid number of stages is " +
           std::to_string(shape.stages + 1);
  }
  wrong = check_even_microbatches("dualpipe", shape);
  if (!wrong.empty()) return wrong;
  return check_two_per_stage("dualpipe", shape.microbatches, 2 * shape.stages, shape.stages);
}

Plan generate_v(const ScheduleShape& shape) {
  Plan plan = waved("dualpipe-v", shape);
  const int p = shape.stages;
  for (int r = 0; r < p; ++r) {
    plan.actions[r] = order_of(Order({r, 2 * p - 1 - r}, {0, 0}), p, r, shape.microbatches);
  }
  return plan;
}

/// The second copy's stages are chunks p...2p-1, so that rank r holds chunks r and 2p-1-r.
Plan generate(const ScheduleShape& shape) {
  Plan plan = waved("dualpipe", shape);
  plan.num_copies = 2;
  const int p = shape.stages;
  const int half = shape.microbatches / 2;
  for (int r = 0; r < p; ++r) {
    const bool upper = r >= p / 2;
    const Order order =
        upper ? Order({2 * p - 1 - r, r}, {half, 0}) : Order({r, 2 * p - 1 - r}, {0, half});
    plan.actions[r] = order_of(order, p / 2, std::min(r, p - 1 - r), half);
  }
  return plan;
}

}  // namespace

Generator dual_pipe() {
  return {.name = "dualpipe",
          .source = "DualPipe: DeepSeek-V3 technical report, section 3.2.1; order as in its code",
          .chunks = 2,
          .copies = 2,
          .check = check,
          .generate = generate};
}

Generator dual_pipe_v() {
  return {.name = "dualpipe-v",
          .source = "DualPipeV: DualPipe cut in half, as in its authors' code",
          .chunks = 2,
          .check = check_v,
          .generate = generate_v};
}

}  // namespace troupe::schedules
