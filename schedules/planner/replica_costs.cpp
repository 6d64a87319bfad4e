#include "schedules/planner/replica_costs.h"

#include <algorithm>

namespace troupe::schedules {
namespace {

using Division = Work::Division;

/// The replicas that divide state among themselves.
int dividing(const Work& work) {
  return work.division == Division::none ? 1 : std::max(1, work.dp / work.instances);
}

double gather(const Work& work, const Operations& operations, double bytes) {
  return operations.collective(Rounds::gather, dividing(work), work.ranks_apart(), bytes);
}

/// The sum of the gradients of so many parameters: each replica gets all, or its slice.
double reduction(const Work& work, const Operations& operations, double parameters) {
  const double bytes = work.gradient_bytes * parameters;
  const int apart = work.ranks_apart();
  if (work.division == Division::none)
    return operations.collective(Rounds::reduce, work.dp, apart, bytes);
  const int members = dividing(work);
  return operations.collective(Rounds::gather, members, apart, bytes) +
         operations.collective(Rounds::reduce, work.dp / members, apart * members, bytes / members);
}

/// A collective beside a pass.
double beside(const Operations& operations, double collective, double pass, bool overlaps) {
  return overlaps ? uncovered(collective, pass, operations.machine().software.interference)
                  : collective;
}

/// When a rank's reductions have ended, if those of chunks queue in the order of their last
/// backwards, each ready at `ready`.
struct Reduced {
  double end = 0, sum = 0;
};

struct LastBackward {
  int chunk = 0;
  double start = 0;
};
/// In the order of time.
std::vector<LastBackward> last_backwards(const std::vector<Action>& actions,
                                         const std::vector<Simulation::Span>& times) {
  std::vector<LastBackward> last;
  for (std::size_t i = actions.size(); i-- > 0;) {
    const Action& action = actions[i];
    if (action.op != Op::B && action.op != Op::W) continue;
    if (std::ranges::find(last, action.chunk, &LastBackward::chunk) == last.end())
      last.push_back({.chunk = action.chunk, .start = times[i].start});
  }
  std::ranges::reverse(last);
  return last;
}

Reduced reduce(const Work& work, const Operations& operations,
               const std::vector<LastBackward>& last, const std::vector<ChunkWork>& chunks,
               double end_of_rank) {
  Reduced out;
  for (const auto& [chunk, start] : last) {
    const double time =
        reduction(work, operations, parameters_of(work, chunks[static_cast<std::size_t>(chunk)]));
    const double ready = work.overlaps_reductions ? start : end_of_rank;
    out.end = std::max(out.end, ready) + time;
    out.sum += time;
  }
  return out;
}

/// The sum of the gradients of a tied matrix, over its two stages.
double tied_sum(const Work& work, const Operations& operations) {
  if (!work.tied || work.pp == 1) return 0;
  const double bytes = sizeof(float) * work.parameters_of_vocabulary() / work.tp;
  return operations.collective(Rounds::reduce, 2, work.tp * (work.pp - 1), bytes);
}

}  // namespace

void add_replica_waits(const Work& work, const Operations& operations, double parameters,
                       ChunkCosts& costs) {
  if (work.dp == 1) return;
  const double forward = costs.forward(), backward = costs.backward();
  if (work.division == Division::optim_grads_params) {
    const double gathered = gather(work, operations, operations.element_bytes() * parameters);
    costs.forward_replicas += beside(operations, gathered, forward, true);
    if (work.reshards) costs.backward_replicas += beside(operations, gathered, backward, true);
  }
  if (work.reduces_every_microbatch)
    costs.backward_replicas += beside(operations, reduction(work, operations, parameters), backward,
                                      work.overlaps_reductions);
}

double exposed_reductions(const std::vector<Work>& stages, const Operations& operations,
                          const Plan& plan, const std::vector<ChunkWork>& chunks,
                          const Simulation& simulation) {
  // That of the end whose shards have more of the matrix.
  const double tied =
      std::max(tied_sum(stages.front(), operations), tied_sum(stages.back(), operations));
  double exposed = 0;
  for (std::size_t rank = 0; rank < plan.actions.size(); ++rank) {
    const Work& work = stages[rank];
    if (work.dp == 1 || work.reduces_every_microbatch) continue;
    const double least = work.overlaps_reductions ? operations.machine().software.interference : 0;
    const auto& times = simulation.times[rank];
    const auto last = last_backwards(plan.actions[rank], times);
    const Reduced reduced = reduce(work, operations, last, chunks, times.back().end);
    exposed = std::max({exposed, reduced.end - simulation.wall, least * reduced.sum});
  }
  return exposed + tied;
}

double estimated_reductions(const Work& work, const Operations& operations, double parameters,
                            double backwards, double most) {
  const double tied = tied_sum(work, operations);
  if (work.dp == 1 || work.reduces_every_microbatch) return tied;
  const double all = reduction(work, operations, parameters);
  if (!work.overlaps_reductions) return tied + all;
  const double least =
      operations.machine().software.interference * reduction(work, operations, most);
  return tied + std::max(least, all - backwards);
}

double optimizer_time(const Work& work, const Operations& operations, double parameters) {
  return operations.stream(operations.machine().software.optimizer_bytes * parameters /
                           dividing(work));
}

double weights_gather(const Work& work, const Operations& operations, double parameters) {
  if (work.dp == 1 || work.division == Division::none ||
      work.division == Division::optim_grads_params)
    return 0;
  const double whole = gather(work, operations, operations.element_bytes() * parameters);
  // Forwards that need none of them yet run beside it, but those of the first layers do.
  return work.overlaps_gathers ? operations.machine().software.interference * whole : whole;
}

}  // namespace troupe::schedules
