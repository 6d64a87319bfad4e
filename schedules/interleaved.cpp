#include <algorithm>

#include "schedules/families.h"
#include "schedules/groups.h"

namespace troupe::schedules {
namespace {

std::string check(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty()) return wrong;
  if (shape.chunks < 2) {
    return "interleaved has at least 2 chunks per stage, but chunks = 1; set chunks = 2, or choose "
           "1f1b";
  }
  return check_groups("interleaved", shape);
}

/// Rank r: F x w with w = min(2(p-1-r) + (v-1)G, mv), then (F, B) x (mv-w), then B x w.
Plan generate(const ScheduleShape& shape) {
  Plan plan = looped("interleaved", shape);
  const int p = shape.stages;
  const int v = shape.chunks;
  const int total = shape.microbatches * v;
  const std::vector<GroupEntry> entries = grouped(shape);
  for (int r = 0; r < p; ++r) {
    std::vector<Action>& order = plan.actions[r];
    order.reserve(2 * total);
    const auto forward = [&](int k) {
      order.push_back({entries[k].local_chunk * p + r, Op::F, entries[k].microbatch});
    };
    const auto backward = [&](int k) {
      order.push_back({(v - 1 - entries[k].local_chunk) * p + r, Op::B, entries[k].microbatch});
    };
    const int w = std::min(2 * (p - 1 - r) + (v - 1) * group_size(shape), total);
    for (int k = 0; k < w; ++k) forward(k);
    for (int k = 0; k < total - w; ++k) {
      forward(w + k);
      backward(k);
    }
    for (int k = total - w; k < total; ++k) backward(k);
  }
  return plan;
}

}  // namespace

Generator interleaved() {
  return {.name = "interleaved",
          .source =
              "interleaved 1F1B: arXiv 2104.04473, section 2.2.2; warm-up and groups of "
              "microbatches as in Megatron-LM's schedules.py, rounds as in PyTorch's pipelining",
          .chunks = 2,
          .check = check,
          .generate = generate};
}

}  // namespace troupe::schedules
