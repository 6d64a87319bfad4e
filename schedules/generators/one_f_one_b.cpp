#include <algorithm>

#include "schedules/generators/families.h"

namespace troupe::schedules {
namespace {

std::string check(const ScheduleShape& shape) {
  return check_chunks("1f1b", shape, 1);
}

/// Rank r: F x w with w = min(p-1-r, m), then (F, B) x (m-w), then B x w.
Plan generate(const ScheduleShape& shape) {
  Plan plan = looped("1f1b", shape);
  const int p = shape.stages;
  const int m = shape.microbatches;
  for (int r = 0; r < p; ++r) {
    const int w = std::min(p - 1 - r, m);
    std::vector<Action>& order = plan.actions[r];
    order.reserve(2 * m);
    for (int i = 0; i < w; ++i) order.push_back({r, Op::F, i});
    for (int i = 0; i < m - w; ++i) {
      order.push_back({r, Op::F, w + i});
      order.push_back({r, Op::B, i});
    }
    for (int i = m - w; i < m; ++i) order.push_back({r, Op::B, i});
  }
  return plan;
}

}  // namespace

Generator one_f_one_b() {
  return {.name = "1f1b",
          .source = "1F1B with a flush (PipeDream-Flush): arXiv 2104.04473, section 2.2.1",
          .check = check,
          .generate = generate};
}

}  // namespace troupe::schedules
