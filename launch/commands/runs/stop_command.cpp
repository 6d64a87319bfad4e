#include <fmt/format.h>

#include "launch/commands/commands.h"
#include "launch/control/live_run.h"
#include "launch/host/console.h"
#include "tensor/error.h"

namespace troupe::launch {
namespace {

/// How the run ended, from the launcher, or from the run's files if the launcher died before it
/// could tell.
Ending wait_for_end(ControlClient& launcher, const std::string& run) {
  if (!launcher.receive(kReplyPatience)) return ended_unanswered(run);
  if (const auto last = launcher.receive(ControlClient::kForEver))
    if (last->contains("ended"))
      if (const auto ending = parse_ending(last->at("ended"))) return *ending;
  return find_ending(run);
}

}  // namespace

int run(const StopOptions& options) {
  const auto asked = ask_run(options.run, "stop");
  if (const auto* ending = std::get_if<Ending>(&asked))
    throw Error(ErrorKind::unavailable, "nothing to stop: " + describe(*ending, options.run));
  const Ending ending = wait_for_end(*std::get<std::unique_ptr<ControlClient>>(asked), options.run);
  print((options.json ? to_json(ending).dump(2) : describe(ending, options.run)) + "\n");
  return ending.outcome.exit_code;
}

}  // namespace troupe::launch
