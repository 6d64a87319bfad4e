#include "schedules/families.h"

namespace troupe::schedules {
namespace {

/// Every rank: for each of its chunks F x m, then for its chunks from the last B x m, the
/// microbatches in reverse.
Plan generate(const ScheduleShape& shape) {
  Plan plan = looped("looped-bfs", shape);
  const int p = shape.stages;
  const int m = shape.microbatches;
  for (int r = 0; r < p; ++r) {
    std::vector<Action>& order = plan.actions[r];
    order.reserve(2 * m * shape.chunks);
    for (int chunk = r; chunk < plan.num_chunks(); chunk += p) {
      for (int i = 0; i < m; ++i) order.push_back({chunk, Op::F, i});
    }
    for (int chunk = plan.num_chunks() - p + r; chunk >= 0; chunk -= p) {
      for (int i = m - 1; i >= 0; --i) order.push_back({chunk, Op::B, i});
    }
  }
  return plan;
}

}  // namespace

Generator looped_bfs() {
  return {.name = "looped-bfs",
          .source = "breadth-first pipeline: arXiv 2211.05953; order as PyTorch's LoopedBFS",
          .chunks = 2,
          .check = check_shape,
          .generate = generate};
}

}  // namespace troupe::schedules
