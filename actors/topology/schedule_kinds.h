#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schedules/generators/generators.h"
#include "schedules/plan/plan.h"

namespace troupe::actors {

// Beside the generators' names, schedule.kind may be "csv", for a plan of one's own, and "auto".

/// The kind under which a run measures its stages, then changes to the fastest schedule.
inline constexpr const char* kAutoSchedule = "auto";

/// The generator of a training schedule; auto begins as 1f1b. Null for csv and unknown names.
const schedules::Generator* generator_of(const std::string& kind);

/// What schedule.kind may be: the names of training schedules, csv and auto.
std::vector<std::string_view> schedule_kinds();

/// 1f1b with every other backward of a rank in two parts, I and W, one right after the other: one
/// step shows what each kind of action takes.
schedules::Plan measuring_plan(const schedules::ScheduleShape& shape);

}  // namespace troupe::actors
