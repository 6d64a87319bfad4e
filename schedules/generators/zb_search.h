#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedules/generators/generators.h"

namespace troupe::schedules {

/// Searches a plan for one chunk per rank (zb-1p, zb-2p) under a cap of activations, in
/// microbatches: F takes 1, I and W give 1/2 back each.
Plan search_one_chunk(std::string_view kind, const ScheduleShape& shape, double cap);

/// Searches a plan for two chunks per rank in a V (zb-v), under a cap as search_one_chunk() has.
Plan search_v(std::string_view kind, const ScheduleShape& shape, double cap);

/// Most microbatches of a stage that each rank holds at once, if F takes 1, I and W give 1/2 back
/// each, and B gives 1 back.
std::vector<double> peak_memory(const Plan& plan);

/// Why the shape's cap cannot hold the `least` microbatches that a search starts with; empty if it
/// can.
std::string check_cap(std::string_view kind, const ScheduleShape& shape, double least);

}  // namespace troupe::schedules
