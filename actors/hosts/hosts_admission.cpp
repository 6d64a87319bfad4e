#include <fmt/format.h>

#include <utility>

#include "actors/hosts/hosts_actor.h"
#include "actors/messages/secret.h"

// How a host that joins a live run becomes a part of it: when it and the others reach each other.

namespace troupe::actors {
namespace {

constexpr double kNewcomerPatienceS = 2.5;
/// How long agents that live may take to answer. One that does not keeps nobody out.
constexpr double kNewcomerLimitS = 20;
/// Until the ways of a host that is kept out are tried again.
constexpr std::chrono::seconds kTriedAgain{10};

}  // namespace

/// Has a host that has joined and the others try the ways between them.
void HostsActor::admit(const HostAdmitted& newcomer) {
  const Agent* agent = agent_of(newcomer.host.name);
  if (!director_ || !agent || agent->incarnation != newcomer.incarnation) return;
  SurveyPlan plan{.hosts = {},
                  .ports = context_.ports,
                  .patience_s = kNewcomerPatienceS,
                  .limit_s = kNewcomerLimitS};
  if (!context_.own.empty()) plan.hosts.push_back({context_.own, context_.address, {}});
  for (const HostRegistry::Entry& entry : context_.registry.entries())
    if (!entry.lost && entry.host.name != newcomer.host.name)
      plan.hosts.push_back({entry.host.name, entry.address, {}});
  for (const HostRegistry::Entry& entry : context_.registry.entries())
    if (entry.host.name == newcomer.host.name)
      plan.hosts.push_back({entry.host.name, entry.address, {}});
  try_the_last(plan, random_u64());
  surveys_.ask({.plan = std::move(plan),
                .done = [this, newcomer](const SurveyResult& found) { tried(newcomer, found); }});
}

/// Lets the newcomer take part, or tells why not, and looks again later.
void HostsActor::tried(const HostAdmitted& newcomer, const SurveyResult& found) {
  const Agent* agent = agent_of(newcomer.host.name);
  if (!agent || agent->incarnation != newcomer.incarnation) return;
  const std::vector<BrokenWay> broken = found.broken_ways();
  if (broken.empty())
    return tell(HostJoined{.host = newcomer.host, .ends_s = newcomer.ends_s, .now_s = now_s()});
  if (!newcomer.waits && director_)
    caf::anon_send(
        director_,
        Note{.text = fmt::format("host {} has come, and waits until it and the others reach each "
                                 "other: {} does not reach {} at {}",
                                 newcomer.host.name, broken.front().from, broken.front().to,
                                 broken.front().how)});
  HostAdmitted later = newcomer;
  later.waits = true;
  delayed_send(this, kTriedAgain, later);
}

}  // namespace troupe::actors
