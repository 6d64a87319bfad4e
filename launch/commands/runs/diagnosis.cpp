#include "launch/commands/runs/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "launch/control/event_json.h"
#include "launch/host/machine.h"
#include "launch/host/quantities.h"
#include "launch/manifest/inputs/placement.h"
#include "launch/report/host_table.h"
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

/// A host that is lost, with what became of its ranks.
std::string fault_of_host(const actors::HostStatus& host) {
  return fmt::format(
      "host {} is lost{}; {}it is used again once an agent joins from it", host.host,
      host.cause.empty() ? "" : ": " + host.cause,
      host.ranks.empty() ? "" : fmt::format("with it {}; ", ranks_in_words(host.ranks)));
}

/// Ranks of a host that compute longer than expected.
struct SlowRanks {
  std::vector<int> ranks;
  double busy_s = 0, usual_busy_s = 0;
};

std::map<std::string, SlowRanks> slow_ranks_of(const json& status,
                                               const std::vector<actors::RankStatus>& ranks) {
  std::map<std::string, SlowRanks> slow;
  const auto found = field_of<std::vector<actors::StragglerFound>>(status, "stragglers");
  for (const actors::RankStatus& rank : ranks)
    for (const auto& one : found) {
      if (rank.replica != one.replica || rank.stage != one.stage || rank.shard != one.shard)
        continue;
      SlowRanks& of_host = slow[rank.host];
      of_host.ranks.push_back(rank.rank);
      of_host.busy_s += one.busy_s;
      of_host.usual_busy_s += one.usual_busy_s;
    }
  return slow;
}

/// One finding for a host, because what slows one of its ranks down may slow all of them down.
std::string slowness_of(const actors::HostStatus& host, const SlowRanks& slow) {
  return fmt::format(
      "host {} is slow: {} of its {} ({}) {} {:.1f} times as long as expected, {} a step instead "
      "of "
      "{}; see what else runs there",
      host.host, slow.ranks.size(), schedules::counted(std::ssize(host.ranks), "rank"),
      ranges_text(slow.ranks), slow.ranks.size() == 1 ? "computes" : "compute",
      slow.busy_s / slow.usual_busy_s, span_text(slow.busy_s), span_text(slow.usual_busy_s));
}

/// Adds a finding for each lost host, which stands for those about its ranks. Returns these.
std::set<int> diagnose_lost(const std::vector<actors::HostStatus>& hosts,
                            std::vector<std::string>& findings) {
  std::set<int> told;
  for (const actors::HostStatus& host : hosts) {
    if (host.state != "lost") continue;
    findings.push_back(fault_of_host(host));
    told.insert(host.ranks.begin(), host.ranks.end());
  }
  return told;
}

}  // namespace

std::vector<std::string> diagnose(const json& status) {
  const auto ranks = field_of<std::vector<actors::RankStatus>>(status, "ranks");
  const auto hosts = field_of<std::vector<actors::HostStatus>>(status, "hosts");
  std::vector<std::string> findings;
  const std::set<int> told = diagnose_lost(hosts, findings);
  for (const auto& rank : ranks)
    if (const std::string fault = fault_of_rank(rank); !fault.empty() && !told.contains(rank.rank))
      findings.push_back(fmt::format("rank {} (replica {}, stage {}): {}", rank.rank, rank.replica,
                                     rank.stage, fault));
  if (text_of(status, "state") == "regrouping")
    findings.push_back(
        text_of(status, "failure").empty()
            ? "the cluster regroups after a failure or an order; events.jsonl names the cause"
            : "the cluster regroups: " + text_of(status, "failure"));
  for (const auto& [name, slow] : slow_ranks_of(status, ranks))
    if (const auto host = std::ranges::find(hosts, name, &actors::HostStatus::host);
        host != hosts.end())
      findings.push_back(slowness_of(*host, slow));
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
