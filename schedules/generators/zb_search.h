#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedules/generators.h"

namespace troupe::schedules {

/// What the search for one chunk a rank (zb-1p, zb-2p) makes under a cap of activations, in
/// microbatches: F takes 1, I and W give 1/2 back each.
Plan search_one_chunk(std::string_view kind, const ScheduleShape& shape, double cap);

/// Searches a plan for two chunks a rank in a V (zb-v).
Plan search_v(std::string_view kind, const ScheduleShape& shape, double cap);

/// Most microbatches of a stage that each rank holds at once, where F takes 1 and I and W give 1/2
/// back each (B both).
std::vector<double> peak_memory(const Plan& plan);

/// Why the shape's cap cannot hold what a search starts with, `least` microbatches; else empty.
std::string check_cap(std::string_view kind, const ScheduleShape& shape, double least);

}  // namespace troupe::schedules
