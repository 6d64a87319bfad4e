#pragma once

#include <string>
#include <vector>

#include "launch/commands/options.h"
#include "schedules/plan.h"
#include "schedules/simulate.h"

namespace troupe::launch {

/// A schedule, and how it runs with the costs of the command line, in their unit.
struct ScheduleOnPaper {
  std::string kind;
  int chunks = 1;      ///< a rank
  std::string source;  ///< who defined it; empty for a file
  schedules::Plan plan;
  schedules::Simulation simulation;
};

/// Makes and simulates a schedule. Throws Error{usage} where it does not exist or cannot have that
/// shape, Error{data} for a plan file that is none.
ScheduleOnPaper on_paper(const ScheduleOptions& options, const std::string& kind);

/// One schedule that cannot be had, and why.
struct Impossible {
  std::string kind;
  std::string why;
};
struct Comparison {
  std::vector<ScheduleOnPaper> possible;  ///< the shortest step first
  std::vector<Impossible> impossible;
};
/// Each schedule with the asked number of chunks, or, where it cannot have that, with its own.
Comparison compare(const ScheduleOptions& options);

std::string to_json(const ScheduleOnPaper& schedule);
std::string to_json(const Comparison& comparison);
/// A line of figures a schedule.
std::string to_table(const Comparison& comparison);
/// Some lines of figures.
std::string summary(const ScheduleOnPaper& schedule);

}  // namespace troupe::launch
