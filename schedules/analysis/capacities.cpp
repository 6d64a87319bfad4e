#include <algorithm>

#include "schedules/analysis/credits.h"
#include "schedules/analysis/validate.h"

namespace troupe::schedules {
namespace {

/// What one chunk holds now, and the most it has held.
struct Held {
  int now = 0;
  int most = 0;
  void take() { most = std::max(most, ++now); }
  void give() { --now; }
};

/// Capacities that follow from the plan's order alone, with one spare slot for each edge.
std::vector<ChunkCapacity> held_at_once(const Plan& plan) {
  std::vector<Held> live(plan.num_chunks());
  std::vector<Held> inputs(plan.num_chunks());
  std::vector<Held> deferred(plan.num_chunks());
  std::vector<Held> gradients(plan.num_chunks());
  std::vector<char> goes_back(plan.num_chunks(), 0);
  for (const std::vector<Action>& order : plan.actions) {
    for (const Action& action : order) {
      const int chunk = action.chunk;
      if (action.op == Op::F) {
        live[chunk].take();
        inputs[chunk].take();
      }
      if (action.op == Op::I) deferred[chunk].take();
      if (action.op == Op::I || action.op == Op::B) {
        gradients[chunk].take();
        inputs[chunk].give();
      }
      if (action.op == Op::W) deferred[chunk].give();
      if (action.op == Op::W || action.op == Op::B) {
        gradients[chunk].give();
        live[chunk].give();
      }
      if (action.op != Op::F) goes_back[chunk] = 1;
    }
  }
  std::vector<ChunkCapacity> out(plan.num_chunks());
  const auto slots = [&](int held) {
    return std::min(std::max(held, 1) + 1, plan.microbatches_per_copy());
  };
  for (int chunk = 0; chunk < plan.num_chunks(); ++chunk) {
    out[chunk].live = goes_back[chunk] ? live[chunk].most : 0;
    out[chunk].deferred = deferred[chunk].most;
    if (!plan.is_first(chunk))
      out[chunk].forward_slots = slots(goes_back[chunk] ? inputs[chunk].most : 0);
    if (!plan.is_last(chunk) && goes_back[chunk]) {
      out[chunk].backward_slots = slots(gradients[chunk].most);
    }
  }
  return out;
}

}  // namespace

std::vector<ChunkCapacity> capacities(const Plan& plan) {
  CreditRun run(plan, held_at_once(plan));
  while (!run.advance() && run.add_slots()) {
  }
  return run.capacities();
}

}  // namespace troupe::schedules
