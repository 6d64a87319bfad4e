#pragma once

#include "schedules/generators.h"

namespace troupe::schedules {

// One row of the table in generators.cpp each, defined in the file of its name.
Generator gpipe();
Generator one_f_one_b();
Generator interleaved();
Generator forward_only();

/// A plan without actions whose chunk c lies on rank c mod p: each rank holds every p-th chunk.
Plan looped(std::string_view kind, const ScheduleShape& shape);
/// Why a shape with a number below 1, or far too many actions, is impossible; else empty.
std::string check_shape(const ScheduleShape& shape);
/// check_shape, and why `kind` cannot have more than one chunk a rank.
std::string check_one_chunk(std::string_view kind, const ScheduleShape& shape);

}  // namespace troupe::schedules
