#include <algorithm>

#include "schedules/generators/families.h"

namespace troupe::schedules {
namespace {

/// Rank r: F x w with w = c(p-1-r); for i = 0...m-1: F if any is left, I_i, then one W if i >= cr;
/// then the last cr W. Here c is how many forwards a rank runs ahead of the next one.
Plan generate(std::string_view kind, const ScheduleShape& shape, int c) {
  Plan plan = looped(kind, shape);
  const int p = shape.stages;
  const int m = shape.microbatches;
  for (int r = 0; r < p; ++r) {
    std::vector<Action>& order = plan.actions[r];
    order.reserve(3 * m);
    int forwards = 0;
    int weights = 0;
    while (forwards < std::min(c * (p - 1 - r), m)) order.push_back({r, Op::F, forwards++});
    for (int i = 0; i < m; ++i) {
      if (forwards < m) order.push_back({r, Op::F, forwards++});
      order.push_back({r, Op::I, i});
      if (i >= c * r) order.push_back({r, Op::W, weights++});
    }
    while (weights < m) order.push_back({r, Op::W, weights++});
  }
  return plan;
}

std::string check_h2(const ScheduleShape& shape) {
  std::string wrong = check_chunks("zb-h2", shape, 1);
  if (!wrong.empty() || shape.stages == 1) return wrong;
  wrong = check_two_per_stage("zb-h2", shape);
  return wrong.empty() ? wrong : wrong + ", or choose zb-h1";
}

constexpr std::string_view kSource =
    "handcrafted zero-bubble schedules: arXiv 2401.10241, section 2; order as in the authors' code";

}  // namespace

Generator zb_h1() {
  return {.name = "zb-h1",
          .source = kSource,
          .check = [](const ScheduleShape& shape) { return check_chunks("zb-h1", shape, 1); },
          .generate = [](const ScheduleShape& shape) { return generate("zb-h1", shape, 1); }};
}

Generator zb_h2() {
  return {.name = "zb-h2",
          .source = kSource,
          .check = check_h2,
          .generate = [](const ScheduleShape& shape) { return generate("zb-h2", shape, 2); }};
}

}  // namespace troupe::schedules
