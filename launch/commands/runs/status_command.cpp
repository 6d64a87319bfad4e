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

/// The kernel's letter for a process's state: R, S, D, T (stopped), Z (dead); ' ' if there is no
/// such process.
char process_state(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name before it may hold any character
  return name_end != std::string::npos && name_end + 2 < text.size() ? text[name_end + 2] : ' ';
}

std::string fault_of_process(const json& rank) {
  const int pid = rank.value("pid", 0);
  if (pid == 0) return "has no process yet";
  if (rank.value("host", "") != host_name()) return "";
  switch (process_state(pid)) {
    case ' ':
    case 'Z':
      return fmt::format("its process {} is dead", pid);
    case 'T':
    case 't':
      return fmt::format("its process {} is stopped; continue it with: kill -CONT {}", pid, pid);
    default:
      return "";
  }
}

std::string fault_of_rank(const json& rank) {
  const std::string process = fault_of_process(rank);
  if (!process.empty()) return process;
  if (rank.value("state", "") == "lost") return "is lost and not replaced yet";
  return "";
}

}  // namespace

std::vector<std::string> diagnose(const json& status) {
  std::vector<std::string> findings;
  for (const json& rank : status.value("ranks", json::array())) {
    const std::string fault = fault_of_rank(rank);
    if (fault.empty()) continue;
    findings.push_back(fmt::format("rank {} (replica {}, stage {}): {}", rank.value("rank", 0),
                                   rank.value("replica", 0), rank.value("stage", 0), fault));
  }
  const std::string state = status.value("state", "");
  if (state == "regrouping")
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
  print(options.json ? reply->dump(2) + "\n" : text_of(*reply, options.run));
  return 0;
}

}  // namespace troupe::launch
