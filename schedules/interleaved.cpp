#include <algorithm>

#include "schedules/families.h"

namespace troupe::schedules {
namespace {

std::string check(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty()) return wrong;
  const int p = shape.stages;
  const int m = shape.microbatches;
  if (shape.chunks < 2) {
    return "interleaved has at least 2 chunks per stage, but chunks = 1; set chunks = 2, or choose "
           "1f1b";
  }
  if (m % p != 0) {
    const int below = m / p * p;
    const int nearest = below > 0 && m - below <= below + p - m ? below : below + p;
    return "interleaved needs microbatches to be a multiple of stages, but " + std::to_string(m) +
           " microbatches over " + std::to_string(p) + " stages leave " + std::to_string(m % p) +
           "; the nearest valid number of microbatches is " + std::to_string(nearest);
  }
  return {};
}

/// The k-th forward of every rank: groups of p microbatches go through one local chunk after the
/// other. The k-th backward takes the chunks from the last to the first.
struct Entry {
  int local_chunk;
  int microbatch;
};
Entry entry(const ScheduleShape& shape, int k) {
  const int p = shape.stages;
  const int v = shape.chunks;
  return {.local_chunk = k / p % v, .microbatch = k / (p * v) * p + k % p};
}

/// Rank r: F x w with w = min(2(p-1-r) + (v-1)p, mv), then (F, B) x (mv-w), then B x w.
Plan generate(const ScheduleShape& shape) {
  Plan plan = looped("interleaved", shape);
  const int p = shape.stages;
  const int v = shape.chunks;
  const int total = shape.microbatches * v;
  for (int r = 0; r < p; ++r) {
    std::vector<Action>& order = plan.actions[r];
    order.reserve(2 * total);
    const auto forward = [&](int k) {
      const Entry e = entry(shape, k);
      order.push_back({e.local_chunk * p + r, Op::F, e.microbatch});
    };
    const auto backward = [&](int k) {
      const Entry e = entry(shape, k);
      order.push_back({(v - 1 - e.local_chunk) * p + r, Op::B, e.microbatch});
    };
    const int w = std::min(2 * (p - 1 - r) + (v - 1) * p, total);
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
              "interleaved 1F1B: arXiv 2104.04473, section 2.2.2; warm-up and groups of p "
              "microbatches as in Megatron-LM's schedules.py",
          .check = check,
          .generate = generate};
}

}  // namespace troupe::schedules
