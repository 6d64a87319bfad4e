#include "launch/commands/launching/run_end.h"

#include <fmt/format.h>

#include <utility>

#include "launch/run/outcome.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

/// Writes outcome.json and removes what tells where the run is found. If the disk is full, that,
/// which is not needed any more, is removed first to make room.
void write_ending(const Ending& ending, const RunDirectory& directory, ConsoleWriter& console) {
  const std::string text = to_json(ending).dump() + "\n";
  const auto remove_others = [&] {
    for (const char* file : {kControlFile, kHostsFile}) directory.remove(file);
  };
  try {
    directory.write(kOutcomeFile, text);
    remove_others();
  } catch (const Error&) {
    remove_others();
    try {
      directory.write(kOutcomeFile, text);
    } catch (const Error& error) {
      console.print_error(fmt::format("warning: {}", error.what()));
    }
  }
}

/// Whether a new run was stopped before it did anything. Then its directory is removed, so that the
/// same command can be given again.
bool has_done_nothing(const End& end) {
  return end.is_new && end.outcome.step == 0 && end.checkpoint.empty() && end.stopped &&
         end.outcome.exit_code == static_cast<int>(ErrorKind::retry);
}

}  // namespace

int report_end(const End& end, RunDirectory directory, ControlServer& control, RunLog& log,
               ConsoleWriter& console) {
  const actors::Outcome& outcome = end.outcome;
  const std::string path = directory.path().string();
  const Ending ending = ending_now(outcome, end.fallen ? "" : end.checkpoint);
  if (end.fallen) {
    control.finish(to_json(ending));
    console.print_error(fmt::format("{}; the run ended after step {}, and nothing is changed there",
                                    outcome.reason, outcome.step));
    return outcome.exit_code;
  }
  log.note(describe(ending, path));
  log.finish();
  if (has_done_nothing(end))
    directory.discard();
  else
    write_ending(ending, directory, console);
  {
    const RunDirectory given_up(std::move(directory));
  }  // released first, since a client that learns of the end may take over the directory at once
  control.finish(to_json(ending));
  if (has_done_nothing(end)) {
    console.print_error(
        fmt::format("{} before the first step; {} is removed", outcome.reason, path));
  } else if (outcome.exit_code == 0) {
    console.show(fmt::format("{} at step {}{}\n", outcome.reason, outcome.step, saved_as(ending)));
  } else {
    console.print_error(outcome.reason);
    console.print_error(fmt::format("the run ended after step {}{}; logs are in {}/logs",
                                    outcome.step, saved_as(ending), path));
  }
  for (const std::string& trouble : log.troubles()) console.print_error("warning: " + trouble);
  return outcome.exit_code;
}

void wait_for_hook(SaveHook& hook, SignalWatch& signals, ConsoleWriter& console) {
  if (hook.busy()) console.show("waiting for checkpoint.on_save of the last checkpoint\n");
  const auto give_up = [&](const std::string&) { hook.give_up(); };
  signals.orders({.stop = give_up, .stop_now = give_up});
  hook.finish();
  signals.orders({});
}

}  // namespace troupe::launch
