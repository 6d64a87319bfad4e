#include <algorithm>

#include "schedules/generators/families.h"
#include "schedules/generators/groups.h"

namespace troupe::schedules {
namespace {

/// The shape with microbatches in rounds, as in PyTorch.
ScheduleShape in_rounds(ScheduleShape shape) {
  shape.grouping = Grouping::in_rounds;
  return shape;
}

std::string check(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  return wrong.empty() ? check_groups("interleaved-zb", in_rounds(shape)) : wrong;
}

/// Rank r: F x w with w = min((v-1)G + p-1-r, mv), then (F, I) x (mv-w), then I x w; from the r-th
/// I on, each I is followed by the oldest W that waits; then the rest of the W.
Plan generate(const ScheduleShape& shape) {
  Plan plan = looped("interleaved-zb", shape);
  const int p = shape.stages;
  const int v = shape.chunks;
  const int total = shape.microbatches * v;
  const std::vector<GroupEntry> entries = grouped(in_rounds(shape));
  for (int r = 0; r < p; ++r) {
    std::vector<Action>& order = plan.actions[r];
    order.reserve(3 * total);
    int forwards = 0;
    int weights = 0;
    const auto forward = [&] {
      const GroupEntry& entry = entries[forwards++];
      order.push_back({entry.local_chunk * p + r, Op::F, entry.microbatch});
    };
    const auto backward = [&](Op op, int k) {
      order.push_back({(v - 1 - entries[k].local_chunk) * p + r, op, entries[k].microbatch});
    };
    const int w = std::min((v - 1) * group_size(in_rounds(shape)) + p - 1 - r, total);
    while (forwards < w) forward();
    for (int k = 0; k < total; ++k) {
      if (forwards < total) forward();
      backward(Op::I, k);
      if (k >= r) backward(Op::W, weights++);
    }
    while (weights < total) backward(Op::W, weights++);
  }
  return plan;
}

}  // namespace

Generator interleaved_zb() {
  return {.name = "interleaved-zb",
          .source = "interleaved zero bubble: PyTorch's pipelining, after arXiv 2401.10241",
          .chunks = 2,
          .check = check,
          .generate = generate};
}

}  // namespace troupe::schedules
