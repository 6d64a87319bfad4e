#include <fmt/format.h>

#include <algorithm>

#include "launch/commands/options.h"
#include "launch/control/control_protocol.h"
#include "launch/host/console.h"
#include "launch/host/local_time.h"
#include "launch/host/quantities.h"
#include "launch/run/run_list.h"

namespace troupe::launch {
namespace {

nlohmann::json fields_of(const ListedRun& run) {
  nlohmann::json out{{"directory", run.directory.string()},
                     {"name", run.name},
                     {"state", run.state},
                     {"reason", run.reason},
                     {"step", run.step},
                     {"max_steps", run.max_steps},
                     {"loss", nullptr},
                     {"checkpoint", run.checkpoint},
                     {"changed", run.changed}};
  if (run.loss) out["loss"] = *run.loss;
  return out;
}

/// The first line of a text, cut to fit a screen.
std::string in_short(const std::string& text) {
  constexpr std::size_t kMost = 60;
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() <= kMost ? line : line.substr(0, kMost - 3) + "...";
}

std::string line_of(const ListedRun& run, std::size_t width) {
  std::string line =
      fmt::format("{}  {:<10}  {:>17}  {:>9}  {:<{}}", time_text(static_cast<double>(run.changed)),
                  run.state, fmt::format("{}/{}", grouped(run.step), grouped(run.max_steps)),
                  run.loss ? fmt::format("{:.4f}", *run.loss) : "", run.directory.string(), width);
  if (run.state != "running" && run.state != "ended") line += "  " + in_short(run.reason);
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

}  // namespace

int run(const RunsOptions& options) {
  const auto runs = list_runs(options.directory);
  if (options.json) {
    nlohmann::json all = nlohmann::json::array();
    for (const ListedRun& run : runs) all.push_back(fields_of(run));
    print(to_text({{"runs", all}}) + "\n");
    return 0;
  }
  if (runs.empty()) print(fmt::format("no runs in {}\n", options.directory));
  std::size_t width = 0;
  for (const ListedRun& run : runs) width = std::max(width, run.directory.string().size());
  for (const ListedRun& run : runs) print(line_of(run, width));
  return 0;
}

}  // namespace troupe::launch
