#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "launch/commands/options.h"
#include "launch/commands/runs/diagnosis.h"
#include "launch/control/control_client.h"
#include "launch/control/event_json.h"
#include "launch/host/console.h"
#include "launch/host/quantities.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/report/host_table.h"
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
    parts.push_back(fmt::format("loss {:.4f}", number_of(status, "loss")));
    parts.push_back(grouped(std::llround(number_of(status, "tokens_per_s"))) + " tokens/s");
    parts.push_back(duration_text(number_of(status, "time_left_s")) + " left");
  }
  if (status.contains("mfu"))
    parts.push_back(fmt::format("mfu {:.1f} %", 100 * number_of(status, "mfu")));
  if (status.contains("device_used_bytes"))
    parts.push_back("gpu memory " + bytes_text(integer_of(status, "device_used_bytes")) + " of " +
                    bytes_text(integer_of(status, "device_total_bytes")));
  if (const auto bytes = integer_of(status, "resident_bytes"); bytes > 0)
    parts.push_back("memory " + bytes_text(bytes));
  return parts.empty() ? "" : fmt::format("{}\n", fmt::join(parts, "  "));
}

std::string line_of(const actors::RankStatus& r) {
  const std::string gpu = r.gpu ? fmt::format(", gpu {} ({})", r.gpu->index, r.gpu->name) : "";
  return fmt::format(
      "rank {:>3}  replica {:>2}  stage {:>2}  shard {:>2}  pid {:>7} on {}{}  {:>10}  {}{}\n",
      r.rank, r.replica, r.stage, r.shard, r.pid, r.host, gpu,
      bytes_text(static_cast<std::int64_t>(r.resident_bytes)), r.state,
      r.waiting_for.empty() ? "" : ", waits for " + r.waiting_for);
}

/// "host h1: lost, no ranks, lost 2 times; nothing heard for 3 s".
std::string line_of(const HostLine& host) {
  std::string out = fmt::format("host {}: {}", host.host, host.state);
  if (host.ranks == "none") out += ", no ranks";
  if (!host.within.empty()) out += fmt::format(", {} a step within it by shm", host.within);
  if (!host.to_others.empty()) out += fmt::format(", {} to others by tcp", host.to_others);
  if (!host.losses.empty()) out += ", lost " + host.losses;
  return out + (host.cause.empty() ? "\n" : "; " + host.cause + "\n");
}

/// The ranks, of a run on several hosts by their hosts.
std::string rank_lines(const json& status) {
  const auto ranks = field_of<std::vector<actors::RankStatus>>(status, "ranks");
  std::string out;
  std::set<std::string> told;
  for (const HostLine& host :
       host_table(field_of<std::vector<actors::HostStatus>>(status, "hosts"))) {
    told.insert(host.host);
    out += line_of(host);
    for (const auto& rank : ranks)
      if (rank.host == host.host) out += line_of(rank);
  }
  for (const auto& rank : ranks)
    if (!told.contains(rank.host)) out += line_of(rank);
  return out;
}

/// The status as text. As in all commands, a run is named by its directory.
std::string status_text(const json& status, const std::string& run) {
  std::string out =
      fmt::format("run {} is {}, step {}, configuration {}\n", run, text_of(status, "state"),
                  integer_of(status, "step"), integer_of(status, "configuration"));
  out += pace_line(status);
  for (const json& p : objects_of(status, "progress")) {
    const std::int64_t done = integer_of(p, "done"), of = integer_of(p, "of");
    out += text_of(p, "unit") == "bytes"
               ? fmt::format("{}: {} of {} written\n", text_of(p, "what"), bytes_text(done),
                             bytes_text(of))
               : fmt::format("{}: {} of {} steps done\n", text_of(p, "what"), done, of);
  }
  return out + rank_lines(status);
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
  print(options.json ? reply->dump(2) + "\n" : status_text(*reply, options.run));
  return 0;
}

}  // namespace troupe::launch
