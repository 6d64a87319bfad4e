#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "launch/commands/options.h"
#include "launch/commands/runs/diagnosis.h"
#include "launch/control/event_json.h"
#include "launch/control/live_run.h"
#include "launch/host/console.h"
#include "launch/host/quantities.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/run/run_directory.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

/// The status of a run without a launcher: the fields of a live run's status, and how the run
/// ended.
json ended_status(const std::filesystem::path& run, const Ending& ending) {
  json status = to_json(actors::RunStatus{.state = "ended", .step = ending.outcome.step},
                        Manifest::read(run / kManifestFile, {})->name);
  status.update(to_json(ending));
  return status;
}

/// Those parts of "loss 2.3171  8,850 tokens/s  0:02:19 left  memory 233.9 MiB" that are known so
/// far.
std::string pace_line(const json& status) {
  std::vector<std::string> parts;
  if (status.contains("loss")) {
    parts.push_back(fmt::format("loss {:.4f}", status.at("loss").get<double>()));
    parts.push_back(grouped(std::llround(status.at("tokens_per_s").get<double>())) + " tokens/s");
    parts.push_back(duration_text(status.at("time_left_s").get<double>()) + " left");
  }
  if (status.contains("mfu"))
    parts.push_back(fmt::format("mfu {:.1f} %", 100 * status.at("mfu").get<double>()));
  if (status.contains("device_used_bytes"))
    parts.push_back("gpu memory " + bytes_text(status.at("device_used_bytes").get<std::int64_t>()) +
                    " of " + bytes_text(status.at("device_total_bytes").get<std::int64_t>()));
  if (const auto bytes = status.at("resident_bytes").get<std::int64_t>(); bytes > 0)
    parts.push_back("memory " + bytes_text(bytes));
  return parts.empty() ? "" : fmt::format("{}\n", fmt::join(parts, "  "));
}

/// The status as text. As in all commands, a run is named by its directory.
std::string text_of(const json& status, const std::string& run) {
  std::string out = fmt::format(
      "run {} is {}, step {}, configuration {}\n", run, status.at("state").get<std::string>(),
      status.at("step").get<std::int64_t>(), status.at("configuration").get<int>());
  out += pace_line(status);
  for (const json& p : status.value("progress", json::array())) {
    const auto done = p.at("done").get<std::int64_t>(), of = p.at("of").get<std::int64_t>();
    const bool bytes = p.at("unit") == "bytes";
    out +=
        bytes ? fmt::format("{}: {} of {} written\n", p.at("what").get<std::string>(),
                            bytes_text(done), bytes_text(of))
              : fmt::format("{}: {} of {} steps done\n", p.at("what").get<std::string>(), done, of);
  }
  for (const json& r : status.at("ranks")) {
    const std::string wait = r.at("waiting_for");
    out += fmt::format(
        "rank {:>3}  replica {:>2}  stage {:>2}  shard {:>2}  pid {:>7} on {}  {:>10}  {}{}\n",
        r.at("rank").get<int>(), r.at("replica").get<int>(), r.at("stage").get<int>(),
        r.value("shard", 0), r.at("pid").get<int>(), r.at("host").get<std::string>(),
        bytes_text(r.at("resident_bytes").get<std::int64_t>()), r.at("state").get<std::string>(),
        wait.empty() ? "" : ", waits for " + wait);
  }
  return out;
}

/// Prints the findings, or `healthy` if there are none. Returns the exit code, 1 if there are
/// findings.
int tell(const std::vector<std::string>& findings, const std::string& healthy) {
  for (const std::string& finding : findings) print(finding + "\n");
  if (findings.empty()) print(healthy + "\n");
  return findings.empty() ? 0 : 1;
}

int tell_ended(const Ending& ending, const StatusOptions& options) {
  const std::string text = describe(ending, options.run);
  if (options.diagnose) return ending.outcome.exit_code == 0 ? tell({}, text) : tell({text}, "");
  print((options.json ? ended_status(options.run, ending).dump(2) : text) + "\n");
  return 0;
}

}  // namespace

int run(const StatusOptions& options) {
  const auto asked = ask_run(options.run, "status");
  if (const auto* ending = std::get_if<Ending>(&asked)) return tell_ended(*ending, options);
  const auto reply = std::get<std::unique_ptr<ControlClient>>(asked)->receive(kReplyPatience);
  if (!reply) return tell_ended(ended_unanswered(options.run), options);
  if (options.diagnose)
    return tell(diagnose(*reply), fmt::format("run {}: nothing is wrong, step {}", options.run,
                                              reply->at("step").get<std::int64_t>()));
  print(options.json ? reply->dump(2) + "\n" : text_of(*reply, options.run));
  return 0;
}

}  // namespace troupe::launch
