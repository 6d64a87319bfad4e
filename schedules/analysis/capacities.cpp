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

/// What one chunk holds of each kind of buffer.
struct ChunkHeld {
  Held live, inputs, deferred, gradients;
  bool goes_back = false;
};

/// Capacities that follow from the plan's order alone, with one spare slot for each edge.
std::vector<ChunkCapacity> held_at_once(const Plan& plan) {
  std::vector<ChunkHeld> chunks(plan.num_chunks());
  for (const std::vector<Action>& order : plan.actions) {
    for (const Action& action : order) {
      ChunkHeld& chunk = chunks[action.chunk];
      if (action.op == Op::F) {
        chunk.live.take();
        chunk.inputs.take();
      }
      if (action.op == Op::I) chunk.deferred.take();
      if (action.op == Op::I || action.op == Op::B) {
        chunk.gradients.take();
        chunk.inputs.give();
      }
      if (action.op == Op::W) chunk.deferred.give();
      if (action.op == Op::W || action.op == Op::B) {
        chunk.gradients.give();
        chunk.live.give();
      }
      if (action.op != Op::F) chunk.goes_back = true;
    }
  }
  std::vector<ChunkCapacity> out;
  const auto slots = [&](int held) {
    return std::min(std::max(held, 1) + 1, plan.microbatches_per_copy());
  };
  for (int i = 0; i < plan.num_chunks(); ++i) {
    const auto& [live, inputs, deferred, gradients, goes_back] = chunks[i];
    out.push_back({.live = goes_back ? live.most : 0,
                   .deferred = deferred.most,
                   .forward_slots = plan.is_first(i) ? 0 : slots(goes_back ? inputs.most : 0),
                   .backward_slots = plan.is_last(i) || !goes_back ? 0 : slots(gradients.most)});
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
