#include "schedules/generators/families.h"

namespace troupe::schedules {
namespace {

/// Rank r: F x m, then B x m.
Plan generate(const ScheduleShape& shape) {
  Plan plan = looped("gpipe", shape);
  const int m = shape.microbatches;
  for (int r = 0; r < shape.stages; ++r) {
    std::vector<Action>& order = plan.actions[r];
    order.reserve(2 * m);
    for (int i = 0; i < m; ++i) order.push_back({r, Op::F, i});
    for (int i = 0; i < m; ++i) order.push_back({r, Op::B, i});
  }
  return plan;
}

}  // namespace

Generator gpipe() {
  return {.name = "gpipe",
          .source =
              "GPipe (all forward, all backward): arXiv 1811.06965; order as in arXiv "
              "2104.04473, section 2.2.1",
          .check = [](const ScheduleShape& shape) { return check_chunks("gpipe", shape, 1); },
          .generate = generate};
}

}  // namespace troupe::schedules
