#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "actors/director/director.h"
#include "actors/hosts/hosts.h"

// How the director notices that two hosts of the run do not reach each other.

namespace troupe::actors {
namespace {

/// How long nothing may move on a way. TCP repeats what asks for a connection after one second.
constexpr double kWayPatienceS = 2.5;
/// How long an agent that lives may take to answer.
constexpr double kWayLimitS = 10;

/// The hosts between which ranks wait.
std::set<WayWatch::Pair> waiting_pairs(const RunStatus& status) {
  std::set<WayWatch::Pair> pairs;
  for (const RankStatus& rank : status.ranks)
    for (const int other : rank.waits_long_for) {
      if (other < 0 || other >= std::ssize(status.ranks)) continue;
      const std::string& host = status.ranks[static_cast<std::size_t>(other)].host;
      if (host != rank.host) pairs.insert(std::minmax(rank.host, host));
    }
  return pairs;
}

SurveyPlan plan_of(const std::vector<WayWatch::Pair>& pairs, const Hosts& hosts,
                   const std::string& ports) {
  std::map<std::string, int> numbers;
  std::vector<HostStatus> known;
  for (const auto& [one, other] : pairs)
    for (const std::string& host : {one, other})
      if (numbers.emplace(host, static_cast<int>(known.size())).second)
        known.push_back({.host = host});
  hosts.describe(known);
  SurveyPlan plan{.hosts = {}, .ports = ports, .patience_s = kWayPatienceS, .limit_s = kWayLimitS};
  for (const HostStatus& host : known) plan.hosts.push_back({host.host, host.address, {}});
  for (const auto& [one, other] : pairs) {
    plan.hosts[static_cast<std::size_t>(numbers[one])].tries.push_back(numbers[other]);
    plan.hosts[static_cast<std::size_t>(numbers[other])].tries.push_back(numbers[one]);
  }
  return plan;
}

}  // namespace

void Director::watch_over_ways() {
  if (!context_.hosts) return;
  const auto pairs = ways_.pass(std::chrono::duration<double>(kLivenessTick).count(),
                                [this] { return waiting_pairs(context_.board.read()); });
  if (pairs.empty()) return;
  context_.hosts->survey(
      {.plan = plan_of(pairs, *context_.hosts, context_.spec.cluster.ports),
       .done = [self = caf::actor_cast<caf::actor>(this)](const SurveyResult& found) {
         caf::anon_send(self, WaysTried{.found = found});
       }});
}

/// Goes on without a host that others do not reach. Nobody else ends the workers of this process's
/// own host; those of another one end with its agent.
void Director::on_tried(const WaysTried& tried) {
  const std::vector<BrokenWay> broken = tried.found.parted_ways();
  std::map<std::string, int> ranks;
  for (const RankStatus& rank : context_.board.read().ranks) ++ranks[rank.host];
  const double stands_s = ways_.stands_s();
  const auto verdict = ways_.tried(broken, ranks, context_.hosts->own());
  if (!verdict) {
    if (!broken.empty())
      announce(fmt::format("{} does not reach {} at {}; the way is tried once more",
                           broken.front().from, broken.front().to, broken.front().how));
    return;
  }
  const std::vector<std::uint64_t> workers = protocol_.roster().on_host(verdict->host);
  handle(HostLost{.name = verdict->host, .cause = verdict->cause, .now_s = now_s() - stands_s});
  for (const std::uint64_t worker : workers) context_.processes.kill(worker);
  context_.hosts->give_up(verdict->host, verdict->cause);
}

}  // namespace troupe::actors
