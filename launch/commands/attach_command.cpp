#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>

#include "launch/commands/commands.h"
#include "launch/control/event_json.h"
#include "launch/host/console.h"
#include "launch/host/signal_fd.h"
#include "launch/monitors/attachment.h"
#include "launch/monitors/terminal_view.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

/// All kinds of events but single actions, which the stages would have to record.
std::string usual_kinds() {
  std::string kinds;
  for (const std::string_view name : actors::kEventNames)
    if (name != "actions") kinds.append(kinds.empty() ? "" : ",").append(name);
  return kinds;
}

/// The exit code when the run has ended: the launcher's, which is 0 for an orderly end, as it is
/// when the user leaves.
int exit_code_of(const Ending& ending, const std::string& run) {
  if (ending.outcome.exit_code != 0) print_error(describe(ending, run));
  return ending.outcome.exit_code;
}

/// Prints a line for each event until the run ends or the user leaves.
int print_lines(Attachment& run, const std::string& name, SignalFd& signals) {
  while (true) {
    std::array<pollfd, 2> ready{{{.fd = run.fd(), .events = POLLIN, .revents = 0},
                                 {.fd = signals.fd(), .events = POLLIN, .revents = 0}}};
    poll(ready.data(), ready.size(), -1);
    if (signals.take() != 0) return 0;
    const Attachment::News news = run.take();
    if (news.dropped > 0) print(to_text({{"kind", "dropped"}, {"dropped", news.dropped}}) + "\n");
    for (const auto& event : news.events) print(to_text(event) + "\n");
    if (news.ended) return exit_code_of(*news.ended, name);
  }
}

}  // namespace

int run(const AttachOptions& options) {
  parse_kinds(options.events);  // a wrong name is reported before the run is asked
  SignalFd signals = options.json ? SignalFd{SIGINT, SIGTERM, SIGHUP}
                                  : SignalFd{SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT};
  if (!options.json && isatty(STDOUT_FILENO) == 0)
    throw Error(ErrorKind::usage,
                "the output is not a terminal; --json prints a line for each event instead");
  const std::string who = fmt::format("{} of pid {}", options.json ? "lines" : "screen", getpid());
  auto opened = Attachment::open(
      options.run, {.kinds = options.events.empty() ? usual_kinds() : options.events, .who = who});
  if (const auto* ending = std::get_if<Ending>(&opened))
    throw Error(ErrorKind::unavailable, "nothing to attach to: " + describe(*ending, options.run));
  Attachment& run = *std::get<std::unique_ptr<Attachment>>(opened);
  if (options.json) return print_lines(run, options.run, signals);
  const auto ending = show_terminal(run, signals);
  if (!ending) return 0;
  if (ending->outcome.exit_code == 0) print(describe(*ending, options.run) + "\n");
  return exit_code_of(*ending, options.run);
}

}  // namespace troupe::launch
