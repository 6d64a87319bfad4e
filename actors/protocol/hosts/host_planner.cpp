#include "actors/protocol/hosts/host_planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "actors/protocol/hosts/host_placement.h"
#include "actors/topology/hosts.h"
#include "tensor/errors/error.h"

namespace troupe::actors {
namespace {

/// The hosts of a run that starts, the last ones kept free if there is room without them.
std::optional<std::vector<std::string>> first_hosts(
    const RunSpec& spec, const RunSpec::Mesh& mesh,
    const std::vector<HostTable::Entry>& available) {
  for (const int kept_free : {spec.recovery.spare_hosts, 0}) {
    std::vector<Host> hosts;
    for (const auto& entry : available)
      if (std::ssize(hosts) < std::ssize(available) - kept_free) hosts.push_back(entry.host);
    if (hosts.empty()) continue;
    try {
      std::vector<std::string> names;
      for (const int host : place_ranks(mesh, hosts, host_rules(spec)))
        names.push_back(hosts[static_cast<std::size_t>(host)].name);
      return names;
    } catch (const Error&) {
      continue;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<TargetShape> HostPlanner::with_hosts(TargetShape target,
                                                   const std::vector<HostTable::Entry>& available,
                                                   bool replaces) const {
  Placement placement = place_target(target, kept_, roster_, available,
                                     {.hosts = host_rules(spec_), .replaces = replaces});
  if (!placement.homeless.empty()) return std::nullopt;
  target.hosts = std::move(placement.hosts);
  return target;
}

std::optional<TargetShape> HostPlanner::largest(const ClusterShape& shape,
                                                const std::vector<HostTable::Entry>& available,
                                                bool replaces) const {
  TargetShape target{.shape = shape, .replicas = {}, .hosts = {}};
  if (kept_.number == 0) {
    replaces = true;
    if (auto hosts = first_hosts(spec_, shape.mesh, available)) {
      target.hosts = std::move(*hosts);
      return target;
    }
  }
  const Placement placement = place_target(target, kept_, roster_, available,
                                           {.hosts = host_rules(spec_), .replaces = replaces});
  if (placement.homeless.empty()) {
    target.hosts = placement.hosts;
    return target;
  }
  auto smaller = shrunk(spec_, shape, placement.homeless);
  if (!smaller) return std::nullopt;
  if (shape != kept_.shape) smaller->replicas.clear();  // they are numbered as in that shape
  return with_hosts(std::move(*smaller), available);
}

std::vector<std::string> HostPlanner::kept_hosts() const {
  std::vector<std::string> hosts;
  if (hosts_.empty() || kept_.number == 0) return hosts;
  for (int rank = 0; rank < kept_.num_ranks(); ++rank) hosts.push_back(kept_.members.at(rank).host);
  return hosts;
}

bool HostPlanner::has_ranks(const std::string& host) const {
  return std::ranges::count(kept_hosts(), host) > 0;
}

std::optional<std::string> HostPlanner::host_for_spare() const {
  if (hosts_.empty()) return "";
  const HostRules rules = host_rules(spec_);
  const RunSpec::Mesh& mesh = spec_.mesh;
  const auto has_use = [&](const std::string& host) {
    for (int stage = 0; stage < mesh.pp; ++stage)
      if (rules.allows(mesh, stage, host)) return true;
    return false;
  };
  std::optional<std::string> best;
  std::pair<bool, int> most{false, 0};
  for (const auto& [host, state] : hosts_.available()) {
    int free = host.slots;
    for (const std::uint64_t worker : roster_.on_host(host.name))
      if (roster_.stays(worker)) --free;
    if (free < 1 || !has_use(host.name) ||
        (best && std::pair(state == HostState::spare, free) <= most))
      continue;
    most = {state == HostState::spare, free};
    best = host.name;
  }
  return best;
}

std::vector<std::string> HostPlanner::hosts_to_leave(const ScaleRequest& request) const {
  std::vector<std::string> left;
  for (const std::string& host : request.without_hosts) {
    check_can_leave(host);
    if (std::ranges::find(left, host) == left.end()) left.push_back(host);
  }
  if (!request.hosts) return left;
  std::vector<std::string> stay;
  for (const auto& [host, state] : hosts_.available())
    if (std::ranges::find(left, host.name) == left.end()) stay.push_back(host.name);
  check_hosts_stay(request, stay);
  const auto kept = kept_hosts();
  const auto ranks_on = [&](const std::string& host) { return std::ranges::count(kept, host); };
  std::ranges::reverse(stay);
  std::ranges::stable_sort(stay, {}, ranks_on);
  stay.resize(stay.size() - static_cast<std::size_t>(*request.hosts));
  left.insert(left.end(), stay.begin(), stay.end());
  return left;
}

/// Refuses a number of hosts that are not among those which stay without the ones that are named.
void HostPlanner::check_hosts_stay(const ScaleRequest& request,
                                   const std::vector<std::string>& stay) const {
  const int wanted = *request.hosts;
  const bool names_some = !request.without_hosts.empty();
  const std::string order = to_string(request) + ": ";
  if (hosts_.empty()) refuse(order + "the run is on one machine");
  if (wanted < 1) refuse(order + "at least 1 host is needed");
  const auto num_stay = static_cast<int>(stay.size());
  if (wanted > num_stay)
    refuse(
        fmt::format("{}{} host{} may have ranks{}: {}; on another one, troupe join offers it "
                    "to the run",
                    order, num_stay, num_stay == 1 ? "" : "s", names_some ? " then" : "",
                    fmt::join(stay, ", ")));
  if (wanted == num_stay && !names_some && !names_shape(request))
    refuse(fmt::format("{}that is what the run has already: {}", order, fmt::join(stay, ", ")));
}

void HostPlanner::check_can_leave(const std::string& host) const {
  if (hosts_.empty()) refuse("--without-host " + host + ": the run is on one machine");
  const HostTable::Entry* entry = hosts_.find(host);
  if (!entry) refuse("--without-host " + host + ": the run has the hosts " + hosts_.names());
  if (entry->state == HostState::lost) refuse("--without-host " + host + ": it is lost already");
  if (entry->state == HostState::draining && !has_ranks(host))
    refuse("--without-host " + host + ": it has no rank already");
}

}  // namespace troupe::actors
