#include "launch/commands/commands.h"
#include "launch/commands/schedule_on_paper.h"
#include "launch/host/console.h"
#include "launch/run/result_file.h"
#include "schedules/drawing/draw.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

int print_comparison(const ScheduleOptions& options) {
  if (options.csv || options.grid || !options.svg.empty() || !options.trace.empty())
    throw Error(
        ErrorKind::usage,
        "--compare prints a table of several schedules; draw one of them with --kind alone");
  const Comparison comparison = compare(options);
  print(options.json ? to_json(comparison) : to_table(comparison));
  return comparison.possible.empty() ? static_cast<int>(ErrorKind::usage) : 0;
}

void write_files(const ScheduleOptions& options, const ScheduleOnPaper& schedule) {
  const auto axis = options.axis == "time" ? schedules::Axis::time : schedules::Axis::slots;
  if (!options.svg.empty())
    ResultFile(options.svg).write(schedules::to_svg(schedule.plan, schedule.simulation, axis));
  if (!options.trace.empty())
    ResultFile(options.trace).write(schedules::to_trace(schedule.plan, schedule.simulation));
}

}  // namespace

int run(const ScheduleOptions& options) {
  if (!options.compare.empty()) return print_comparison(options);
  const ScheduleOnPaper schedule = on_paper(options, options.kind);
  write_files(options, schedule);
  if (options.csv) print(schedules::to_csv(schedule.plan));
  if (options.grid) print(schedules::to_grid(schedule.plan, schedule.simulation));
  if (options.json) print(to_json(schedule));
  const bool asked =
      options.csv || options.grid || options.json || !options.svg.empty() || !options.trace.empty();
  if (!asked) print(summary(schedule));
  return 0;
}

}  // namespace troupe::launch
