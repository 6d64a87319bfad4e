#include <algorithm>
#include <set>
#include <utility>

#include "actors/protocol/host_placement.h"
#include "actors/protocol/protocol.h"
#include "actors/topology/hosts.h"
#include "tensor/errors/error.h"

// Which hosts get which ranks, and which shape they have room for.

namespace troupe::actors {
namespace {

using Hosts = std::vector<HostTable::Entry>;

/// The hosts of a run that starts, the last ones kept free if there is room without them.
std::optional<std::vector<std::string>> first_hosts(const RunSpec& spec, const RunSpec::Mesh& mesh,
                                                    const Hosts& available) {
  for (const int kept_free : {spec.recovery.spare_hosts, 0}) {
    std::vector<Host> hosts;
    for (const auto& entry : available)
      if (std::ssize(hosts) < std::ssize(available) - kept_free) hosts.push_back(entry.host);
    if (hosts.empty()) continue;
    try {
      std::vector<std::string> names;
      for (const int host : place_ranks(mesh, hosts, spec.cluster.tp_across_hosts))
        names.push_back(hosts[static_cast<std::size_t>(host)].name);
      return names;
    } catch (const Error&) {
      continue;
    }
  }
  return std::nullopt;
}

}  // namespace

/// The target with the hosts of its ranks; none if there is no room for all.
std::optional<TargetShape> DirectorProtocol::with_hosts(TargetShape target, const Hosts& available,
                                                        bool replaces) const {
  Placement placement =
      place_target(target, kept_, roster_, available,
                   {.tp_across_hosts = spec_.cluster.tp_across_hosts, .replaces = replaces});
  if (!placement.homeless.empty()) return std::nullopt;
  target.hosts = std::move(placement.hosts);
  return target;
}

/// The shape with the hosts of its ranks, or the largest one below it for which there is room; none
/// if there is none for any.
std::optional<TargetShape> DirectorProtocol::largest(const ClusterShape& shape,
                                                     const Hosts& available, bool replaces) const {
  TargetShape target{.shape = shape, .replicas = {}, .hosts = {}};
  if (kept_.number == 0) {
    replaces = true;
    if (auto hosts = first_hosts(spec_, shape.mesh, available)) {
      target.hosts = std::move(*hosts);
      return target;
    }
  }
  const Placement placement =
      place_target(target, kept_, roster_, available,
                   {.tp_across_hosts = spec_.cluster.tp_across_hosts, .replaces = replaces});
  if (placement.homeless.empty()) {
    target.hosts = placement.hosts;
    return target;
  }
  auto smaller = shrunk(spec_, shape, placement.homeless);
  if (!smaller) return std::nullopt;
  if (shape != kept_.shape) smaller->replicas.clear();  // they are numbered as in that shape
  return with_hosts(std::move(*smaller), available);
}

/// Aims at this shape, or at the largest one that the hosts have room for. Who is lost is replaced
/// if else nobody would be left. If only hosts that are to be left have room, the run goes on there
/// until its last step is saved. False if none have.
bool DirectorProtocol::aim_at_hosts(const ClusterShape& shape, bool replaces) {
  auto target = largest(shape, hosts_.available(), replaces);
  if (!target && !replaces) target = largest(shape, hosts_.available(), true);
  if (!target && kept_.number > 0) {
    target = largest(shape, hosts_.available(true), true);
    if (target && !stopping()) end_.stop(no_other_host(), static_cast<int>(ErrorKind::retry));
  }
  if (target) gathering_.aim_at(std::move(*target));
  return target.has_value();
}

/// Aims at the last configuration that all ranks reached.
void DirectorProtocol::aim_at_kept() {
  gathering_.aim_at({.shape = kept_.shape, .replicas = {}, .hosts = kept_hosts()});
  if (!hosts_.empty()) aim_at_hosts(kept_.shape, true);
}

/// Has the missing workers of the ordered change started, on hosts that may have ranks.
void DirectorProtocol::place_change(double delay_s) {
  if (!scale_ || is_scaling() || is_between_configurations()) return;
  if (!hosts_.empty()) {
    auto target = change_on_hosts(*scale_);
    if (!target) {
      const bool leaves = scale_->keeps_shape;
      give_up_scale(ErrorKind::unavailable, "the hosts that are left have no room for it");
      if (leaves) stop_without_hosts();
      return;
    }
    scale_->aim_at(std::move(*target));
    if (scale_->keeps_shape && has_changed()) return answer_scale(ErrorKind::usage, "");
  }
  spawn_missing(scale_->target, delay_s);
}

/// What a change is with the hosts that there are now; none if they have no room for it.
std::optional<TargetShape> DirectorProtocol::change_on_hosts(const PendingScale& change) const {
  const auto available = hosts_.available();
  if (!change.keeps_shape) return with_hosts(change.target, available);
  if (failed_leaves_ > 1) return std::nullopt;
  return largest(kept_.shape, available, failed_leaves_ == 0);
}

std::vector<std::string> DirectorProtocol::kept_hosts() const {
  std::vector<std::string> hosts;
  if (hosts_.empty() || kept_.number == 0) return hosts;
  for (int rank = 0; rank < kept_.num_ranks(); ++rank) hosts.push_back(kept_.members.at(rank).host);
  return hosts;
}

bool DirectorProtocol::has_ranks(const std::string& host) const {
  return std::ranges::count(kept_hosts(), host) > 0;
}

/// Where a worker that waits for work is started: on a spare host, or where most slots are free.
/// None if no slot is.
std::optional<std::string> DirectorProtocol::host_for_spare() const {
  if (hosts_.empty()) return "";
  std::optional<std::string> best;
  std::pair<bool, int> most{false, 0};
  for (const auto& [host, state] : hosts_.available()) {
    int free = host.slots;
    for (const std::uint64_t worker : roster_.on_host(host.name))
      if (roster_.stays(worker)) --free;
    if (free < 1 || (best && std::pair(state == HostState::spare, free) <= most)) continue;
    most = {state == HostState::spare, free};
    best = host.name;
  }
  return best;
}

/// Notes and reports which hosts have ranks and which are spare.
void DirectorProtocol::tell_use_of_hosts(const std::vector<std::string>& hosts) {
  const std::set<std::string> used(hosts.begin(), hosts.end());
  for (const auto& [host, before] : hosts_.available()) {
    const HostState state = used.contains(host.name) ? HostState::joined : HostState::spare;
    if (hosts_.set(host.name, state))
      emit(ReportHost{.host = host.name, .state = state, .cause = ""});
  }
}

/// Throws if it makes no sense to order that this host be left.
void DirectorProtocol::check_can_leave(const std::string& host) const {
  const auto refuse = [](const std::string& why) { throw Error(ErrorKind::usage, why); };
  if (hosts_.empty()) refuse("--without-host " + host + ": the run is on one machine");
  const HostTable::Entry* entry = hosts_.find(host);
  if (!entry) refuse("--without-host " + host + ": the run has the hosts " + hosts_.names());
  if (entry->state == HostState::lost) refuse("--without-host " + host + ": it is lost already");
  if (entry->state == HostState::draining && !has_ranks(host) && !is_between_configurations())
    refuse("--without-host " + host + ": it has no rank already");
}

std::string DirectorProtocol::no_other_host() const {
  std::string names;
  for (const auto& [host, state] : hosts_)
    if (state == HostState::draining) names += (names.empty() ? "" : ", ") + host.name;
  return "no host but those that are to be left (" + names + ") can hold the run";
}

/// Ends the run in order, because the hosts that are left have no room for any shape of it.
void DirectorProtocol::stop_without_hosts() {
  stop_in_order(no_other_host(), static_cast<int>(ErrorKind::retry));
}

}  // namespace troupe::actors
