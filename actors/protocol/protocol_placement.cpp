#include <set>
#include <utility>

#include "actors/protocol/protocol.h"

// Which hosts get which ranks, and which shape they have room for.

namespace troupe::actors {

/// Aims at this shape, or at the largest one that the hosts have room for. Who is lost is replaced
/// if else nobody would be left. If only hosts that are to be left have room, the run goes on there
/// until its last step is saved. False if none have.
bool DirectorProtocol::aim_at_hosts(const ClusterShape& shape, bool replaces) {
  auto target = planner().largest(shape, hosts_.available(), replaces);
  if (!target && !replaces) target = planner().largest(shape, hosts_.available(), true);
  if (!target && kept_.number > 0) {
    target = planner().largest(shape, hosts_.available(true), true);
    if (target && !stopping())
      end_.stop(hosts_.no_other_has_room(), static_cast<int>(ErrorKind::retry));
  }
  if (target) gathering_.aim_at(std::move(*target));
  return target.has_value();
}

/// Aims at the last configuration that all ranks reached.
void DirectorProtocol::aim_at_kept() {
  gathering_.aim_at({.shape = kept_.shape, .replicas = {}, .hosts = planner().kept_hosts()});
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
  if (!change.keeps_shape) return planner().with_hosts(change.target, available);
  if (failed_leaves_ > 1) return std::nullopt;
  return planner().largest(kept_.shape, available, failed_leaves_ == 0);
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

/// Ends the run in order, because the hosts that are left have no room for any shape of it.
void DirectorProtocol::stop_without_hosts() {
  stop_in_order(hosts_.no_other_has_room(), static_cast<int>(ErrorKind::retry));
}

}  // namespace troupe::actors
