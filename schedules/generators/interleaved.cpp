#include <algorithm>
#include <ranges>

#include "schedules/generators/families.h"
#include "schedules/generators/groups.h"
#include "schedules/plan/counted.h"

// Schedules whose ranks hold every p-th chunk and take microbatches through them in groups.

namespace troupe::schedules {
namespace {

/// The order of one rank, which is added to by entries of grouped().
class RankOrder {
 public:
  RankOrder(Plan& plan, int rank)
      : order_(plan.actions[rank]), p_(plan.num_ranks()), v_(plan.num_chunks() / p_), rank_(rank) {}

  void reserve(std::size_t actions) { order_.reserve(actions); }
  void add(const GroupEntry& entry, Op op, bool overlaps_next = false) {
    order_.push_back({entry.local_chunk * p_ + rank_, op, entry.microbatch, overlaps_next});
  }
  /// Adds an action of the k-th backward, given the k-th entry: backwards take chunks in reverse.
  void add_backward(const GroupEntry& entry, Op op) {
    add({.local_chunk = v_ - 1 - entry.local_chunk, .microbatch = entry.microbatch}, op);
  }

 private:
  std::vector<Action>& order_;
  int p_, v_, rank_;
};

/// Rank r: F x w with w = min(2(p-1-r) + (v-1)G + more, mv), then (F, B) x (mv-w), then B x w.
Plan one_forward_one_backward(std::string_view kind, const ScheduleShape& shape, int more,
                              bool in_pairs) {
  Plan plan = looped(kind, shape);
  const int total = shape.microbatches * shape.chunks;
  const std::vector<GroupEntry> entries = grouped(shape);
  for (int r = 0; r < shape.stages; ++r) {
    RankOrder order(plan, r);
    order.reserve(2 * entries.size());
    const int ahead = 2 * (shape.stages - 1 - r) + (shape.chunks - 1) * group_size(shape) + more;
    const int w = std::min(ahead, total);
    for (int k = 0; k < w; ++k) order.add(entries[k], Op::F);
    for (int k = 0; k < total - w; ++k) {
      order.add(entries[w + k], Op::F, in_pairs);
      order.add_backward(entries[k], Op::B);
    }
    for (int k = total - w; k < total; ++k) order.add_backward(entries[k], Op::B);
  }
  return plan;
}

std::string check_interleaved(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty()) return wrong;
  if (shape.chunks < 2)
    return "interleaved has at least 2 chunks per stage, but chunks = 1; set chunks = 2, or choose "
           "1f1b";
  return check_groups("interleaved", shape);
}

std::string check_combined(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  if (!wrong.empty()) return wrong;
  return check_groups("combined-1f1b", shape);
}

/// The shape with microbatches in rounds, as in PyTorch.
ScheduleShape in_rounds(ScheduleShape shape) {
  shape.grouping = Grouping::in_rounds;
  return shape;
}

std::string check_zb(const ScheduleShape& shape) {
  const std::string wrong = check_shape(shape);
  return wrong.empty() ? check_groups("interleaved-zb", in_rounds(shape)) : wrong;
}

/// Rank r: F x w with w = min((v-1)G + p-1-r, mv), then (F, I) x (mv-w), then I x w; from the r-th
/// I on, each I is followed by the oldest W that waits; then the rest of the W.
Plan generate_zb(const ScheduleShape& shape) {
  Plan plan = looped("interleaved-zb", shape);
  const int total = shape.microbatches * shape.chunks;
  const std::vector<GroupEntry> entries = grouped(in_rounds(shape));
  for (int r = 0; r < shape.stages; ++r) {
    RankOrder order(plan, r);
    order.reserve(3 * entries.size());
    int forwards = 0;
    int weights = 0;
    const int w =
        std::min((shape.chunks - 1) * group_size(in_rounds(shape)) + shape.stages - 1 - r, total);
    while (forwards < w) order.add(entries[forwards++], Op::F);
    for (int k = 0; k < total; ++k) {
      if (forwards < total) order.add(entries[forwards++], Op::F);
      order.add_backward(entries[k], Op::I);
      if (k >= r) order.add_backward(entries[weights++], Op::W);
    }
    while (weights < total) order.add_backward(entries[weights++], Op::W);
  }
  return plan;
}

/// Every rank: F x m for each of its chunks, then the same in reverse with B.
Plan generate_bfs(const ScheduleShape& shape) {
  Plan plan = looped("looped-bfs", shape);
  const std::vector<GroupEntry> entries = grouped({.stages = shape.stages,
                                                   .chunks = shape.chunks,
                                                   .microbatches = shape.microbatches,
                                                   .group_size = shape.microbatches});
  for (int r = 0; r < shape.stages; ++r) {
    RankOrder order(plan, r);
    order.reserve(2 * entries.size());
    for (const GroupEntry& entry : entries) order.add(entry, Op::F);
    for (const GroupEntry& entry : entries | std::views::reverse) order.add(entry, Op::B);
  }
  return plan;
}

/// On every rank groups of at most p microbatches go through one local chunk after the other.
Plan generate_forward_only(const ScheduleShape& shape) {
  Plan plan = looped("forward-only", shape);
  const std::vector<GroupEntry> entries =
      grouped({.stages = shape.stages, .chunks = shape.chunks, .microbatches = shape.microbatches});
  for (int r = 0; r < shape.stages; ++r)
    for (const GroupEntry& entry : entries) RankOrder(plan, r).add(entry, Op::F);
  return plan;
}

}  // namespace

Generator interleaved() {
  return {.name = "interleaved",
          .source =
              "interleaved 1F1B: arXiv 2104.04473, section 2.2.2; warm-up and groups of "
              "microbatches as in Megatron-LM's schedules.py, rounds as in PyTorch's pipelining",
          .chunks = 2,
          .check = check_interleaved,
          .generate = [](const ScheduleShape& shape) {
            return one_forward_one_backward("interleaved", shape, 0, false);
          }};
}

/// combined-1f1b has one forward more than interleaved before the first backward, so that neither
/// action of a pair reads what the other writes. With one chunk a stage, rank r has 2(p-1-r) + 1
/// forwards before its pairs: of one stage F_0, (F_1, B_0) ... (F_m-1, B_m-2), B_m-1.
Generator combined_one_f_one_b() {
  return {.name = "combined-1f1b",
          .source = "combined 1F1B: Megatron-LM's combined_1f1b.py and schedules.py",
          .chunks = 2,
          .check = check_combined,
          .generate = [](const ScheduleShape& shape) {
            return one_forward_one_backward("combined-1f1b", shape, 1, true);
          }};
}

Generator interleaved_zb() {
  return {.name = "interleaved-zb",
          .source = "interleaved zero bubble: PyTorch's pipelining, after arXiv 2401.10241",
          .chunks = 2,
          .check = check_zb,
          .generate = generate_zb};
}

Generator looped_bfs() {
  return {.name = "looped-bfs",
          .source = "breadth-first pipeline: arXiv 2211.05953; order as PyTorch's LoopedBFS",
          .chunks = 2,
          .check = check_shape,
          .generate = generate_bfs};
}

Generator forward_only() {
  return {.name = "forward-only",
          .source = "the forward half of interleaved 1F1B: arXiv 2104.04473, section 2.2.2",
          .purpose = Purpose::forward_only,
          .check = check_shape,
          .generate = generate_forward_only};
}

}  // namespace troupe::schedules
