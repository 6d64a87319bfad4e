#include <ranges>

#include "schedules/generators/families.h"
#include "schedules/generators/groups.h"

namespace troupe::schedules {
namespace {

/// Every rank: F x m for each of its chunks, then the same in reverse with B.
Plan generate(const ScheduleShape& shape) {
  Plan plan = looped("looped-bfs", shape);
  const std::vector<GroupEntry> entries = grouped({.stages = shape.stages,
                                                   .chunks = shape.chunks,
                                                   .microbatches = shape.microbatches,
                                                   .group_size = shape.microbatches});
  for (int r = 0; r < shape.stages; ++r) {
    std::vector<Action>& order = plan.actions[r];
    order.reserve(2 * entries.size());
    const auto add = [&](const GroupEntry& entry, Op op) {
      order.push_back({entry.local_chunk * shape.stages + r, op, entry.microbatch});
    };
    for (const GroupEntry& entry : entries) add(entry, Op::F);
    for (const GroupEntry& entry : entries | std::views::reverse) add(entry, Op::B);
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
