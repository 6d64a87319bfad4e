#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedules/plan/plan.h"

namespace troupe::schedules {

/// The first rule that a plan breaks. `rule` is an id in schedules/README.md (SCHED-1 ...).
struct Violation {
  std::string rule;
  int rank = 0;
  int index = 0;        ///< place in the rank's order
  std::string message;  ///< one sentence with the action and the rule
  std::string grid;     ///< the rank's actions near the place, the wrong one marked
};

/// Checks every rule, among them that the plan ends if sends block until a credit is free, with the
/// credits of capacities(). The plan may be broken in any way.
std::optional<Violation> validate(const Plan& plan, Purpose purpose);

/// Number of buffers that one chunk needs, each for one microbatch.
struct ChunkCapacity {
  int live = 0;            ///< most activations held at once from F to B or W
  int deferred = 0;        ///< most microbatches at once for which I keeps something for W
  int forward_slots = 0;   ///< receive slots for activations from the chunk before (0: first chunk)
  int backward_slots = 0;  ///< receive slots for gradients from the chunk after (0: last chunk)
};

/// The buffers of each chunk. Models the runtime: each rank runs its actions in order; an action
/// waits for its input message, then for one of two send buffers, computes, and sends; a message
/// leaves when the receiver has a free slot. An input activation holds its slot from arrival to B
/// or I of its microbatch (to the end of F in a forward-only plan), an output gradient to B or W;
/// the runtime frees both within the action, as early as it can. Each edge gets one slot more than
/// it holds at once, so that a message travels while the stage computes, more if the plan would
/// otherwise stop for ever, and never more than there are microbatches. The plan must obey the
/// rules of validate().
std::vector<ChunkCapacity> capacities(const Plan& plan);

}  // namespace troupe::schedules
