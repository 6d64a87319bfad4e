#pragma once

#include <string>
#include <vector>

#include "launch/commands/options.h"
#include "schedules/analysis/simulate.h"
#include "schedules/plan/plan.h"

namespace troupe::launch {

/// A schedule and its simulation with the costs of the command line, in their unit.
struct ScheduleOnPaper {
  std::string kind;
  int chunks = 1;      ///< chunks of each rank
  std::string source;  ///< where its definition comes from; empty for a plan file
  schedules::Plan plan;
  schedules::Simulation simulation;
};

/// Generates and simulates a schedule. Throws Error{usage} if it does not exist or cannot have that
/// shape, Error{data} if a plan file is not valid.
ScheduleOnPaper on_paper(const ScheduleOptions& options, const std::string& kind);

/// A schedule that cannot be generated for the shape, and why.
struct Impossible {
  std::string kind;
  std::string why;
};
struct Comparison {
  std::vector<ScheduleOnPaper> possible;  ///< ordered by the time of a step, the shortest first
  std::vector<Impossible> impossible;
};
/// Compares schedules, each with the requested number of chunks, or with its default number if it
/// cannot have that one.
Comparison compare(const ScheduleOptions& options);

std::string to_json(const ScheduleOnPaper& schedule);
std::string to_json(const Comparison& comparison);
/// A table with a line of figures for each schedule.
std::string to_table(const Comparison& comparison);
/// Some lines of figures about one schedule.
std::string summary(const ScheduleOnPaper& schedule);

}  // namespace troupe::launch
