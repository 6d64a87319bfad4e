#include "launch/commands/runs/diagnosis.h"

#include <fmt/format.h>

#include <fstream>

#include "launch/host/machine.h"
#include "schedules/plan/counted.h"

namespace troupe::launch {
namespace {

using nlohmann::json;

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
    const std::string wait = rank.value("waiting_for", "");
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

}  // namespace troupe::launch
