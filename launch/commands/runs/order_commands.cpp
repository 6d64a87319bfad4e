#include <fmt/format.h>

#include "launch/commands/options.h"
#include "launch/commands/runs/live_run_commands.h"
#include "launch/control/run_port.h"
#include "launch/host/console.h"
#include "launch/run/run_directory.h"
#include "tensor/errors/error.h"

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

int run(const ScaleOptions& options) {
  if (actors::to_string(options.request).empty())
    refuse(
        "nothing to change: give at least one of --pp, --dp, --tp, --layout, --schedule, "
        "--without-host and --hosts");
  const nlohmann::json request = options.request;
  parse_scale(request);  // refuses what no run takes
  const nlohmann::json answer = order_and_wait(options.run, "scale", "change", request);
  print((options.json ? answer.dump(2) : answer.at("text").get<std::string>()) + "\n");
  return 0;
}

int run(const CheckpointOptions& options) {
  const nlohmann::json answer = order_and_wait(options.run, "save", "checkpoint");
  const auto step = answer.at("step").get<std::int64_t>();
  const std::string path =
      std::filesystem::path(options.run) / kCheckpoints / fmt::format("step-{}", step);
  print((options.json ? to_text({{"step", step}, {"checkpoint", path}}) : path) + "\n");
  return 0;
}

int run(const StopOptions& options) {
  const Ending ending = wait_for_end(*order(options.run, "stop"), options.run);
  print((options.json ? to_json(ending).dump(2) : describe(ending, options.run)) + "\n");
  return ending.outcome.exit_code;
}

}  // namespace troupe::launch
