#include <algorithm>

#include "schedules/generators/families.h"
#include "schedules/generators/groups.h"

namespace troupe::schedules {
namespace {

/// Rank r: F x w with w = min(2(p-1-r) + (v-1)G + more, mv), then (F, B) x (mv-w), then B x w.
Plan one_forward_one_backward(std::string_view kind, const ScheduleShape& shape, int more,
                              bool in_pairs) {
  Plan plan = looped(kind, shape);
  const int p = shape.stages;
  const int v = shape.chunks;
  const int total = shape.microbatches * v;
  const std::vector<GroupEntry> entries = grouped(shape);
  for (int r = 0; r < p; ++r) {
    std::vector<Action>& order = plan.actions[r];
    order.reserve(2 * total);
    const auto forward = [&](int k, bool overlaps_next) {
      order.push_back({.chunk = entries[k].local_chunk * p + r,
                       .op = Op::F,
                       .microbatch = entries[k].microbatch,
                       .overlaps_next = overlaps_next});
    };
    const auto backward = [&](int k) {
      order.push_back({(v - 1 - entries[k].local_chunk) * p + r, Op::B, entries[k].microbatch});
    };
    const int w = std::min(2 * (p - 1 - r) + (v - 1) * group_size(shape) + more, total);
    for (int k = 0; k < w; ++k) forward(k, false);
    for (int k = 0; k < total - w; ++k) {
      forward(w + k, in_pairs);
      backward(k);
    }
    for (int k = total - w; k < total; ++k) backward(k);
  }
  return plan;
}

std::string check_interleaved(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty()) return wrong;
  if (shape.chunks < 2) {
    return "interleaved has at least 2 chunks per stage, but chunks = 1; set chunks = 2, or choose "
           "1f1b";
  }
  return check_groups("interleaved", shape);
}

Plan generate_interleaved(const ScheduleShape& shape) {
  return one_forward_one_backward("interleaved", shape, 0, false);
}

std::string check_combined(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty()) return wrong;
  if (shape.chunks < 2 && shape.stages > 1) {
    return "combined-1f1b has at least 2 chunks per stage where there are several stages, but "
           "stages = " +
           std::to_string(shape.stages) + " and chunks = 1; set chunks = 2";
  }
  return check_groups("combined-1f1b", shape);
}

/// combined-1f1b has one forward more than interleaved before the first backward, so that neither
/// action of a pair reads what the other writes. With one stage and one chunk: F_0, (F_1, B_0) ...
/// (F_m-1, B_m-2), B_m-1.
Plan generate_combined(const ScheduleShape& shape) {
  return one_forward_one_backward("combined-1f1b", shape, 1, true);
}

}  // namespace

Generator interleaved() {
  return {.name = "interleaved",
          .source =
              "interleaved 1F1B: arXiv 2104.04473, section 2.2.2; warm-up and groups of "
              "microbatches as in Megatron-LM's schedules.py, rounds as in PyTorch's pipelining",
          .chunks = 2,
          .check = check_interleaved,
          .generate = generate_interleaved};
}

Generator combined_one_f_one_b() {
  return {.name = "combined-1f1b",
          .source = "combined 1F1B: Megatron-LM's combined_1f1b.py and schedules.py",
          .chunks = 2,
          .check = check_combined,
          .generate = generate_combined};
}

}  // namespace troupe::schedules
