#include <fmt/format.h>

#include <algorithm>

#include "launch/commands/options.h"
#include "launch/control/control_protocol.h"
#include "launch/host/console.h"
#include "launch/host/local_time.h"
#include "launch/host/quantities.h"
#include "launch/run/json_fields.h"
#include "launch/run/run_list.h"

namespace troupe::launch {

TROUPE_JSON_FIELDS(ListedRun, keyed("directory", x.directory.string()), x.name, x.state, x.reason,
                   x.step, x.max_steps,
                   keyed("loss", x.loss ? nlohmann::json(*x.loss) : nlohmann::json()), x.checkpoint,
                   x.changed)

namespace {

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
    print(to_text({{"runs", runs}}) + "\n");
    return 0;
  }
  if (runs.empty()) print(fmt::format("no runs in {}\n", options.directory));
  std::size_t width = 0;
  for (const ListedRun& run : runs) width = std::max(width, run.directory.string().size());
  for (const ListedRun& run : runs) print(line_of(run, width));
  return 0;
}

}  // namespace troupe::launch
