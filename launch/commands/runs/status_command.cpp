#include "launch/commands/runs/status_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <fstream>

#include "launch/commands/options.h"
#include "launch/control/control_client.h"
#include "launch/control/event_json.h"
#include "launch/host/console.h"
#include "launch/host/machine.h"
#include "launch/host/quantities.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/run/run_directory.h"
#include "schedules/plan/counted.h"
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
  for (const auto& r : field_of<std::vector<actors::RankStatus>>(status, "ranks"))
    out += fmt::format(
        "rank {:>3}  replica {:>2}  stage {:>2}  shard {:>2}  pid {:>7} on {}  {:>10}  {}{}\n",
        r.rank, r.replica, r.stage, r.shard, r.pid, r.host,
        bytes_text(static_cast<std::int64_t>(r.resident_bytes)), r.state,
        r.waiting_for.empty() ? "" : ", waits for " + r.waiting_for);
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

/// The kernel's letter for a process's state: R, S, D, T (stopped), Z (dead); ' ' if there is no
/// such process.
char process_state(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name before it may hold any character
  return name_end != std::string::npos && name_end + 2 < text.size() ? text[name_end + 2] : ' ';
}

std::string fault_of_process(const actors::RankStatus& rank) {
  if (rank.pid == 0) return "has no process yet";
  if (rank.host != host_name()) return "";
  switch (process_state(rank.pid)) {
    case ' ':
    case 'Z':
      return fmt::format("its process {} is dead", rank.pid);
    case 'T':
    case 't':
      return fmt::format("its process {0} is stopped; continue it with: kill -CONT {0}", rank.pid);
    default:
      return "";
  }
}

std::string fault_of_rank(const actors::RankStatus& rank) {
  const std::string process = fault_of_process(rank);
  return process.empty() && rank.state == "lost" ? "is lost and not replaced yet" : process;
}

}  // namespace

std::vector<std::string> diagnose(const json& status) {
  std::vector<std::string> findings;
  for (const auto& rank : field_of<std::vector<actors::RankStatus>>(status, "ranks"))
    if (const std::string fault = fault_of_rank(rank); !fault.empty())
      findings.push_back(fmt::format("rank {} (replica {}, stage {}): {}", rank.rank, rank.replica,
                                     rank.stage, fault));
  if (text_of(status, "state") == "regrouping")
    findings.push_back(
        "the cluster regroups after a failure or an order; events.jsonl names the cause");
  for (const json& trouble : status.value("troubles", json::array()))
    findings.push_back(trouble.get<std::string>());
  const json monitors = status.value("monitors", json::object());
  if (const auto dropped = monitors.value("dropped", std::uint64_t{0}); dropped > 0)
    findings.push_back(
        fmt::format("monitors have been too slow for {}; the run itself is not affected",
                    schedules::counted(static_cast<std::int64_t>(dropped), "event")));
  return findings;
}

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
