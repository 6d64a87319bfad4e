#include "schedules/analysis/validate.h"

#include "schedules/analysis/rules.h"
#include "schedules/plan/counted.h"

namespace troupe::schedules {
namespace {

/// Checks SCHED-1 except for the numbers in the actions: there are ranks, chunks and microbatches,
/// and every rank holds a chunk.
std::optional<Violation> check_shape(const Plan& plan) {
  const auto wrong = [](int rank, std::string message) {
    return Violation{.rule = "SCHED-1", .rank = rank, .index = 0, .message = message, .grid = ""};
  };
  if (plan.num_ranks() < 1 || plan.num_chunks() < 1 || plan.num_microbatches < 1) {
    return wrong(0,
                 concat("a plan has at least one rank, chunk and microbatch, this one has ",
                        plan.num_ranks(), ", ", plan.num_chunks(), " and ", plan.num_microbatches));
  }
  if (plan.num_copies < 1 || plan.num_copies > 2 || plan.num_chunks() % plan.num_copies != 0 ||
      plan.num_microbatches % plan.num_copies != 0) {
    return wrong(0, concat(plan.num_copies, " copies of the parameters cannot share ",
                           counted(plan.num_chunks(), "chunk"), " and ",
                           counted(plan.num_microbatches, "microbatch"),
                           "; one copy, or two that share both evenly, can"));
  }
  std::vector<char> has_chunk(plan.num_ranks(), 0);
  for (int chunk = 0; chunk < plan.num_chunks(); ++chunk) {
    const int rank = plan.rank_of_chunk[chunk];
    if (rank < 0 || rank >= plan.num_ranks()) {
      return wrong(0, concat("chunk ", chunk, " lies on rank ", rank, ", but ranks are 0 to ",
                             plan.num_ranks() - 1));
    }
    has_chunk[rank] = 1;
  }
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    if (!has_chunk[rank]) return wrong(rank, concat("rank ", rank, " holds no chunk"));
  }
  return {};
}

bool in_range(const Plan& plan, int chunk, int microbatch) {
  if (chunk < 0 || chunk >= plan.num_chunks()) return false;
  const int first = plan.first_microbatch(chunk);
  return microbatch >= first && microbatch < first + plan.microbatches_per_copy();
}

/// Whether the action at `index` and the next one can run together.
bool is_pair(const std::vector<Action>& order, int index) {
  if (index + 1 == static_cast<int>(order.size())) return false;
  const Action& next = order[index + 1];
  return order[index].op == Op::F && (next.op == Op::B || next.op == Op::I) &&
         next.microbatch != order[index].microbatch;
}

/// Checks SCHED-1 for the numbers in the actions, SCHED-2 and SCHED-8.
std::optional<Violation> check_places(const Plan& plan) {
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    const std::vector<Action>& order = plan.actions[rank];
    for (int index = 0; index < static_cast<int>(order.size()); ++index) {
      const auto& [chunk, op, microbatch, overlaps] = order[index];
      if (!in_range(plan, chunk, microbatch)) {
        return violation(plan, "SCHED-1", rank, index,
                         name(plan, rank, index) + " is outside the plan's " +
                             counted(plan.num_chunks(), "chunk") + " and " +
                             counted(plan.num_microbatches, "microbatch") +
                             (plan.num_copies > 1 ? ", of which each copy takes half" : ""));
      }
      if (plan.rank_of_chunk[chunk] != rank) {
        return violation(plan, "SCHED-2", rank, index,
                         concat(name(plan, rank, index), " belongs to rank ",
                                plan.rank_of_chunk[chunk], ", which holds chunk ", chunk));
      }
      if (overlaps && !is_pair(order, index)) {
        return violation(plan, "SCHED-8", rank, index,
                         name(plan, rank, index) +
                             " begins an overlapped pair, but only an F and the B or I of another "
                             "microbatch right after it can run together");
      }
    }
  }
  return {};
}

}  // namespace

std::optional<Violation> validate(const Plan& plan, Purpose purpose) {
  if (auto wrong = check_shape(plan)) return wrong;
  if (auto wrong = check_places(plan)) return wrong;
  if (auto wrong = check_chunks(plan, purpose)) return wrong;
  return check_end(plan);
}

}  // namespace troupe::schedules
