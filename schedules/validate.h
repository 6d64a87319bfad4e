#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedules/plan.h"

namespace troupe::schedules {

/// The first rule a plan breaks. `rule` is an id of schedules/README.md (SCHED-1 ...).
struct Violation {
  std::string rule;
  int rank = 0;
  int index = 0;        ///< place in the rank's order
  std::string message;  ///< one sentence with the action and the rule
  std::string grid;     ///< the rank's actions near the place, the wrong one marked
};

/// Checks every rule, among them that the plan ends when sends block until a credit is free, with
/// the credits of capacities(). Any plan is allowed, however broken.
std::optional<Violation> validate(const Plan& plan, Purpose purpose);

/// Buffers one chunk needs. Counts of microbatches.
struct ChunkCapacity {
  int live = 0;            ///< activations held from F to B or W, at most at once
  int deferred = 0;        ///< what I keeps for W, at most at once
  int forward_slots = 0;   ///< receive slots for activations from the chunk before (0: first chunk)
  int backward_slots = 0;  ///< receive slots for gradients from the chunk after (0: last chunk)
};

/// By chunk. Models the runtime: each rank runs its actions in order; an action waits for its input
/// message, then for one of two send buffers, computes, and sends; a message leaves when the
/// receiver has a free slot. An input activation holds its slot from arrival to B or I of its
/// microbatch (to the end of F in a forward-only plan), an output gradient to B or W; the runtime
/// frees both within the action, as early as it can. Each edge gets one slot more than it holds at
/// once, so that a message travels while the stage computes, more where the plan would otherwise
/// stop for ever, and never more than there are microbatches. The plan obeys the rules of
/// validate().
std::vector<ChunkCapacity> capacities(const Plan& plan);

}  // namespace troupe::schedules
