#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedules/generators/generators.h"

namespace troupe::schedules {

/// One forward in the order that all ranks share.
struct GroupEntry {
  int local_chunk;  ///< counted within the rank
  int microbatch;
};

/// The group size G: how many microbatches go through a local chunk before the next chunk takes
/// them.
int group_size(const ScheduleShape& shape);

/// All mv forwards: groups of G microbatches, the last one maybe shorter, go through one local
/// chunk after the other. If the k-th forward takes chunk c, the k-th backward takes chunk v-1-c.
std::vector<GroupEntry> grouped(const ScheduleShape& shape);

/// Why the microbatches cannot be grouped as the shape says; empty if they can. By size, as in
/// Megatron-LM, p <= G <= m, and a shorter last group still has p. In rounds, as in PyTorch, m is a
/// multiple of max(1, m / p).
std::string check_groups(std::string_view kind, const ScheduleShape& shape);

}  // namespace troupe::schedules
