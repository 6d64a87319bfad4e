#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedules/generators.h"

namespace troupe::schedules {

/// One forward of every rank, in the order that all ranks share.
struct GroupEntry {
  int local_chunk;  ///< counted on the rank
  int microbatch;
};

/// G: how many microbatches go through a local chunk before the next chunk takes them.
int group_size(const ScheduleShape& shape);

/// All mv forwards: groups of G microbatches, the last one maybe shorter, go through one local
/// chunk after the other. The k-th backward takes the chunk v-1-c where the k-th forward takes c.
std::vector<GroupEntry> grouped(const ScheduleShape& shape);

/// Why the microbatches cannot be grouped as the shape says; else empty. By size: as Megatron-LM,
/// p <= G <= m, and a shorter last group still has p. In rounds: as PyTorch, m is a multiple of
/// max(1, m / p).
std::string check_groups(std::string_view kind, const ScheduleShape& shape);

}  // namespace troupe::schedules
