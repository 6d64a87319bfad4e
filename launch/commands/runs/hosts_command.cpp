#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "launch/commands/options.h"
#include "launch/commands/runs/live_run_commands.h"
#include "launch/control/event_json.h"
#include "launch/host/console.h"
#include "launch/host/quantities.h"
#include "schedules/plan/counted.h"

namespace troupe::launch {

int run(const HostsOptions& options) {
  const auto status =
      order(options.run, "status")->receive(kReplyPatience).value_or(nlohmann::json::object());
  const auto hosts = status.value("hosts", nlohmann::json::array());
  if (options.json) {
    print(hosts.dump(2) + "\n");
    return 0;
  }
  if (hosts.empty()) print("the run is on its launcher's host alone\n");
  for (const actors::HostStatus& host : received_status(status).hosts)
    print(fmt::format("{:<16} {:<9} {:<16} ranks {}{}{}{}\n", host.host, host.state, host.address,
                      host.ranks.empty() ? "none" : fmt::format("{}", fmt::join(host.ranks, ", ")),
                      host.losses == 0 ? "" : "; lost " + schedules::counted(host.losses, "time"),
                      host.clock ? "; clock known to " + span_text(host.clock->error_s) : "",
                      host.cause.empty() ? "" : "; " + host.cause));
  if (const auto strangers = status.value("strangers", std::uint64_t{0}); strangers > 0)
    print(fmt::format("{} connection{} without a certificate of the run: refused\n", strangers,
                      strangers == 1 ? "" : "s"));
  return 0;
}

}  // namespace troupe::launch
