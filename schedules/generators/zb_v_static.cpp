#include <algorithm>
#include <array>

#include "schedules/generators/families.h"

namespace troupe::schedules {
namespace {

std::string check(const ScheduleShape& shape) {
  return check_chunks("zb-v-static", shape, 2);
}

/// A rank's order, which counts the actions of its two chunks (0 is the one on the way forth).
class Order {
 public:
  Order(const Plan& plan, int rank)
      : chunks_{rank, plan.num_chunks() - 1 - rank}, num_microbatches_(plan.num_microbatches) {}

  void F(int c) { add(c, Op::F, forwards_[c]++); }
  void I(int c) { add(c, Op::I, inputs_[c]++); }
  void W(int c) { add(c, Op::W, weights_[c]++); }
  int forwards(int c) const { return forwards_[c]; }
  bool has_weights(int c) const { return weights_[c] < inputs_[c]; }
  std::vector<Action> finish() { return std::move(actions_); }

 private:
  /// The order is built for more microbatches than there may be; the extra ones are left out.
  void add(int c, Op op, int i) {
    if (i < num_microbatches_) actions_.push_back({chunks_[c], op, i});
  }

  std::array<int, 2> chunks_;
  int num_microbatches_;
  std::array<int, 2> forwards_{}, inputs_{}, weights_{};
  std::vector<Action> actions_;
};

/// F0 x (2(p-r)-1); (F1, F0) x r; (F1, I1, W1) x (p-r); (F0, I0, W0, F1, I1, W1) until no F is
/// left; (I0, I1) x r; (I0, W0) x (p-r); the rest of W1, then of W0. Built for n = max(m, 2p-1)
/// microbatches.
std::vector<Action> order_of(const Plan& plan, int r) {
  const int p = plan.num_ranks();
  const int n = std::max(plan.num_microbatches, 2 * p - 1);
  Order order(plan, r);
  for (int k = 0; k < 2 * (p - r) - 1; ++k) order.F(0);
  for (int k = 0; k < r; ++k) {
    order.F(1);
    order.F(0);
  }
  for (int k = 0; k < p - r; ++k) {
    order.F(1);
    order.I(1);
    order.W(1);
  }
  while (order.forwards(1) < n) {
    if (order.forwards(0) < n) order.F(0);
    order.I(0);
    order.W(0);
    order.F(1);
    order.I(1);
    order.W(1);
  }
  for (int k = 0; k < r; ++k) {
    order.I(0);
    order.I(1);
  }
  for (int k = 0; k < p - r; ++k) {
    order.I(0);
    order.W(0);
  }
  while (order.has_weights(1)) order.W(1);
  while (order.has_weights(0)) order.W(0);
  return order.finish();
}

Plan generate(const ScheduleShape& shape) {
  Plan plan = waved("zb-v-static", shape);
  for (int r = 0; r < shape.stages; ++r) plan.actions[r] = order_of(plan, r);
  return plan;
}

}  // namespace

Generator zb_v_static() {
  return {.name = "zb-v-static",
          .source = "ZB-V by hand: arXiv 2401.10241, section 6; order as PyTorch's ZBVZeroBubble",
          .chunks = 2,
          .check = check,
          .generate = generate};
}

}  // namespace troupe::schedules
