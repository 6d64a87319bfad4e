#include "launch/hosts/look_at_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "actors/messages/secret.h"
#include "actors/topology/hosts.h"
#include "launch/manifest/resolve/run_spec.h"
#include "tensor/errors/error.h"

namespace troupe::launch {
namespace {

using actors::Host;
using actors::SurveyPlan;
using actors::SurveyResult;

/// How long nothing may move on a way: longer than a loaded machine takes to give a process its
/// turn, or a network to repeat some lost packets.
constexpr double kPatienceS = 10;

SurveyResult survey(HostGathering& gathering, const std::vector<Host>& hosts,
                    const std::string& ports) {
  SurveyPlan plan{
      .hosts = {}, .ports = ports, .patience_s = kPatienceS, .looks = true, .measures = true};
  std::map<std::string, std::string> addresses{{gathering.own(), gathering.address()}};
  for (const auto& entry : gathering.door()->registry().entries())
    if (!entry.lost) addresses[entry.host.name] = entry.address;
  for (const Host& host : hosts) plan.hosts.push_back({host.name, addresses[host.name], {}});
  actors::try_each_other(plan, actors::random_u64());
  // The launcher's host tries the way to all, with whose clocks it compares its own.
  SurveyPlan::Place own{.host = gathering.own(), .address = gathering.address(), .tries = {}};
  const auto is_own = [&](const SurveyPlan::Place& place) { return place.host == own.host; };
  for (int host = 0; host < std::ssize(plan.hosts); ++host)
    if (!is_own(plan.hosts[static_cast<std::size_t>(host)])) own.tries.push_back(host);
  if (const auto found = std::ranges::find_if(plan.hosts, is_own); found != plan.hosts.end())
    *found = std::move(own);
  else
    plan.hosts.push_back(std::move(own));

  const auto told = std::make_shared<std::promise<SurveyResult>>();
  gathering.door()->survey({.plan = std::move(plan), .done = [told](const SurveyResult& result) {
                              told->set_value(result);
                            }});
  return told->get_future().get();
}

/// How many ranks each host may have at a time.
std::vector<int> count_ranks(const Manifest& manifest, const std::vector<Host>& hosts) {
  actors::RunSpec spec = to_run_spec(manifest);
  spec.cluster.hosts = hosts;
  std::vector<int> ranks(hosts.size());
  for (const int host : actors::place_ranks(spec)) ++ranks.at(static_cast<std::size_t>(host));
  const int most = std::ranges::max(ranks);
  const std::size_t placed = actors::hosts_with_ranks(spec).size();
  std::fill(ranks.begin() + static_cast<std::ptrdiff_t>(placed), ranks.end(), most);
  return ranks;
}

}  // namespace

HostsFound look_at_hosts(HostGathering& gathering, const Manifest& manifest) {
  const std::vector<Host> hosts = gathering.hosts();
  const std::vector<int> ranks = count_ranks(manifest, hosts);
  HostsFound found{.hosts = {},
                   .from_launcher = {},
                   .traits = gathering.traits(),
                   .ports = manifest->cluster.ports};
  for (SurveyResult::Entry& entry : survey(gathering, hosts, found.ports).hosts) {
    if (entry.host == gathering.own())
      for (const actors::LinkProbe& link : entry.links) found.from_launcher[link.host] = link;
    const auto at = std::ranges::find(hosts, entry.host, &Host::name);
    if (at == hosts.end()) continue;  // the launcher's, without a rank
    const auto number = static_cast<std::size_t>(at - hosts.begin());
    found.hosts.push_back({.host = *at, .ranks = ranks[number], .survey = std::move(entry)});
  }
  return found;
}

void require_fit(const Preflight& judged) {
  if (judged.refusals.empty()) return;
  throw Error(ErrorKind::unavailable, fmt::format("{}", fmt::join(judged.refusals, "\n")));
}

}  // namespace troupe::launch
