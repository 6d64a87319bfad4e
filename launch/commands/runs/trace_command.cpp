#include <fmt/format.h>
#include <signal.h>

#include <optional>

#include "launch/commands/options.h"
#include "launch/commands/runs/live_run_commands.h"
#include "launch/host/console.h"
#include "launch/host/quantities.h"
#include "launch/monitors/trace_collector.h"
#include "launch/run/result_file.h"
#include "schedules/plan/counted.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

/// Collects events until all steps are complete, the run ends or the user leaves.
std::optional<Ending> collect(Attachment& run, TraceCollector& trace, SignalFd& signals) {
  while (!trace.done()) {
    const auto news = next_news(run, signals);
    if (!news) return std::nullopt;
    for (const auto& event : news->events) trace.add(event);
    if (news->ended) return news->ended;
  }
  return std::nullopt;
}

}  // namespace

int run(const TraceOptions& options) {
  SignalFd signals{SIGINT, SIGTERM, SIGHUP};
  ResultFile file(options.output);  // a path that cannot be written is reported at once
  const auto run = attach(options.run, "trace", {.kinds = "actions,membership", .who = "trace"});
  TraceCollector trace(run->status(), options.steps);
  const auto ending = collect(*run, trace, signals);
  if (trace.num_complete() == 0)
    throw Error(ErrorKind::unavailable,
                "no step was traced" +
                    (ending ? ": " + describe(*ending, options.run) : std::string(" yet")));
  file.write(trace.chrome_trace().dump() + "\n");
  print(
      fmt::format("{} of {} traced into {}; open it with ui.perfetto.dev or "
                  "chrome://tracing\n",
                  trace.num_complete(), schedules::counted(options.steps, "step"), options.output));
  if (const double error_s = trace.clock_error_s(); error_s > 0)
    print(
        fmt::format("Clocks of hosts were compared: times of others than the first rank's may be "
                    "off by {}.\n",
                    span_text(error_s)));
  return 0;
}

}  // namespace troupe::launch
