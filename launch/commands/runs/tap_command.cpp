#include <fmt/format.h>
#include <signal.h>

#include "launch/commands/options.h"
#include "launch/commands/runs/live_run_commands.h"
#include "launch/control/control_protocol.h"
#include "launch/control/tap_request.h"
#include "launch/host/console.h"
#include "launch/run/json_fields.h"
#include "schedules/plan/counted.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// Throws Error{unavailable} if no tensor can match the tap after a change of the cluster.
void check_change(const json& event, const actors::TapRequest& tap, const json& status) {
  json now = status;
  now["pipeline"] = event.at("pipeline");
  now["step"] = event.at("step");
  if (const std::string why = never_fits(tap, now); !why.empty())
    throw Error(ErrorKind::unavailable,
                fmt::format("the tap ends at step {}, since the cluster is pp {} x dp {} with "
                            "schedule {}: {}",
                            integer_of(event, "step"), integer_of(event, "pp"),
                            integer_of(event, "dp"), text_of(event, "schedule"), why));
}

}  // namespace

int run(const TapOptions& options) {
  const actors::TapRequest tap = parse_edge(options.edge, options.request);
  SignalFd signals{SIGINT, SIGTERM, SIGHUP};
  const auto run =
      attach(options.run, "tap", {.kinds = "tensor,membership", .who = "tap", .tap = tap});
  if (const std::string why = never_fits(tap, run->status()); !why.empty()) refuse(why);
  print_error("waits for " + describe(tap) + "; Ctrl-C leaves");
  std::int64_t samples = 0;
  while (const auto news = next_news(*run, signals)) {
    if (news->dropped > 0) print(to_text({{"kind", "dropped"}, {"dropped", news->dropped}}) + "\n");
    for (const json& event : news->events) {
      if (event.value("kind", "") == "membership") {
        check_change(event, tap, run->status());
        continue;
      }
      print(to_text(event) + "\n");
      if (++samples == tap.samples) return 0;
    }
    if (!news->ended) continue;
    if (samples >= tap.samples) return 0;
    throw Error(ErrorKind::unavailable,
                fmt::format("of {} wanted, {} came: {}", schedules::counted(tap.samples, "sample"),
                            samples, describe(*news->ended, options.run)));
  }
  return 0;
}

}  // namespace troupe::launch
