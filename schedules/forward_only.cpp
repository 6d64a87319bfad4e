#include <algorithm>

#include "schedules/families.h"

namespace troupe::schedules {
namespace {

/// Rank r: groups of at most p microbatches go through one local chunk after the other.
Plan generate(const ScheduleShape& shape) {
  Plan plan = looped("forward-only", shape);
  const int p = shape.stages;
  const int m = shape.microbatches;
  for (int r = 0; r < p; ++r) {
    plan.actions[r].reserve(m * shape.chunks);
    for (int group = 0; group < m; group += p) {
      for (int chunk = r; chunk < plan.num_chunks(); chunk += p) {
        for (int i = group; i < std::min(group + p, m); ++i) {
          plan.actions[r].push_back({chunk, Op::F, i});
        }
      }
    }
  }
  return plan;
}

}  // namespace

Generator forward_only() {
  return {.name = "forward-only",
          .source = "the forward half of interleaved 1F1B: arXiv 2104.04473, section 2.2.2",
          .purpose = Purpose::forward_only,
          .check = check_shape,
          .generate = generate};
}

}  // namespace troupe::schedules
