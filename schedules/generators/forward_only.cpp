#include "schedules/generators/families.h"
#include "schedules/generators/groups.h"

namespace troupe::schedules {
namespace {

/// On every rank groups of at most p microbatches go through one local chunk after the other.
Plan generate(const ScheduleShape& shape) {
  Plan plan = looped("forward-only", shape);
  const std::vector<GroupEntry> entries =
      grouped({.stages = shape.stages, .chunks = shape.chunks, .microbatches = shape.microbatches});
  for (int r = 0; r < shape.stages; ++r)
    for (const GroupEntry& entry : entries)
      plan.actions[r].push_back({entry.local_chunk * shape.stages + r, Op::F, entry.microbatch});
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
