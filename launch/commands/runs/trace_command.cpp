#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "launch/commands/commands.h"
#include "launch/host/console.h"
#include "launch/host/signal_fd.h"
#include "launch/monitors/attachment.h"
#include "launch/monitors/trace_collector.h"
#include "launch/run/result_file.h"
#include "schedules/plan/counted.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

/// Collects events until all steps are complete, the run ends or the user leaves.
std::optional<Ending> collect(Attachment& run, TraceCollector& trace, SignalFd& signals) {
  while (!trace.done()) {
    std::array<pollfd, 2> ready{{{.fd = run.fd(), .events = POLLIN, .revents = 0},
                                 {.fd = signals.fd(), .events = POLLIN, .revents = 0}}};
    poll(ready.data(), ready.size(), -1);
    if (signals.take() != 0) return std::nullopt;
    const Attachment::News news = run.take();
    for (const auto& event : news.events) trace.add(event);
    if (news.ended) return news.ended;
  }
  return std::nullopt;
}

}  // namespace

int run(const TraceOptions& options) {
  SignalFd signals{SIGINT, SIGTERM, SIGHUP};
  ResultFile file(options.output);  // a path that cannot be written is reported at once
  auto opened = Attachment::open(options.run, {.kinds = "actions,membership",
                                               .who = fmt::format("trace of pid {}", getpid())});
  if (const auto* ending = std::get_if<Ending>(&opened))
    throw Error(ErrorKind::unavailable, "nothing to trace: " + describe(*ending, options.run));
  Attachment& run = *std::get<std::unique_ptr<Attachment>>(opened);
  TraceCollector trace(run.status(), options.steps);
  const auto ending = collect(run, trace, signals);
  if (trace.num_complete() == 0)
    throw Error(ErrorKind::unavailable,
                "no step was traced" +
                    (ending ? ": " + describe(*ending, options.run) : std::string(" yet")));
  file.write(trace.chrome_trace().dump() + "\n");
  print(
      fmt::format("{} of {} traced into {}; open it with ui.perfetto.dev or "
                  "chrome://tracing\n",
                  trace.num_complete(), schedules::counted(options.steps, "step"), options.output));
  return 0;
}

}  // namespace troupe::launch
