#include <algorithm>
#include <cstddef>
#include <utility>

#include "actors/protocol/liveness.h"
#include "actors/protocol/protocol.h"

// Hosts that join, are lost or are to be left, and the changes that the run orders by itself for
// them.

namespace troupe::actors {
namespace {

/// Orders of the run itself have numbers from here on, others below.
constexpr std::uint64_t kOwnOrders = std::uint64_t{1} << 63;

}  // namespace

void DirectorProtocol::handle(const HostJoined& event) {
  const std::string& name = event.host.name;
  const bool has_started = gathering_.number() > 0;
  if (has_workers_on(name) && hosts_.set(name, HostState::lost)) {
    const std::string cause = "it has joined anew";
    emit(ReportHost{.host = name, .state = HostState::lost, .cause = cause});
    lose_host(name, cause, event.now_s);
  }
  hosts_.join(event.host);
  if (!has_started) hosts_.set(name, HostState::joined);
  emit(ReportHost{.host = name, .state = hosts_.find(name)->state, .cause = ""});
  if (has_started && spec_.recovery.grow_back) start_grow_timer(GrowClock::kStanding);
}

/// Whether any worker there is alive as far as is known, or has been left by an earlier director.
bool DirectorProtocol::has_workers_on(const std::string& host) const {
  return !roster_.on_host(host).empty() ||
         (takeover_.adoption && !takeover_.adoption->on_host(host).empty());
}

void DirectorProtocol::handle(const HostLost& event) {
  if (!hosts_.set(event.name, HostState::lost)) return;
  emit(ReportHost{.host = event.name, .state = HostState::lost, .cause = event.cause});
  lose_host(event.name, event.cause, event.now_s);
}

void DirectorProtocol::handle(const HostsDraining& event) {
  if (hosts_.empty())
    return stop_in_order("this machine is to be left: " + event.cause,
                         static_cast<int>(ErrorKind::retry));
  std::vector<std::string> names = event.names;
  std::erase_if(names, [this](const std::string& name) { return !hosts_.is_up(name); });
  if (!names.empty()) leave_hosts(names, event.cause);
}

/// Loses all workers of a host as one failure.
void DirectorProtocol::lose_host(const std::string& name, const std::string& cause, double now_s) {
  if (takeover_.adoption && phase_ != Phase::ending)
    return lose_left(takeover_.adoption->on_host(name));
  const std::vector<std::uint64_t> workers = roster_.on_host(name);
  Standing all;
  std::vector<int> ranks;
  for (const std::uint64_t worker : workers) {
    const Standing one = standing_of(worker);
    all.has_part |= one.has_part;
    all.newcomer |= one.newcomer;
    all.has_begun |= one.has_begun;
    if (one.has_part && one.rank >= 0) ranks.push_back(one.rank);
  }
  for (const std::uint64_t worker : workers) roster_.abandon(worker);
  if (phase_ == Phase::ending) return end_if_alone();
  if (gathering_.number() == 0) return;
  std::ranges::sort(ranks);
  if (!ranks.empty()) all.rank = ranks.front();
  if (ranks.size() > 1)
    ranks.erase(ranks.begin());
  else
    ranks.clear();
  if (all.has_part || all.newcomer)
    go_on_without(all, ranks,
                  {.cause = "host " + name + " was lost: " + cause,
                   .host = name,
                   .whole_host = true,
                   .attempt = 0,  // no attempt to go on has failed by itself
                   .now_s = now_s});
  else
    begin_if_complete();
  change_anew();
}

/// Sees to it that hosts get no rank, and that their ranks go elsewhere.
void DirectorProtocol::leave_hosts(const std::vector<std::string>& names,
                                   const std::string& cause) {
  for (const std::string& name : names)
    if (hosts_.set(name, HostState::draining))
      emit(ReportHost{.host = name, .state = HostState::draining, .cause = cause});
  if (phase_ == Phase::ending || gathering_.number() == 0) return;
  for (const std::string& name : names) dismiss_idle_on(name);
  if (phase_ == Phase::gathering) return gather_elsewhere();
  change_anew();
}

/// Dismisses the workers of a host that hold no state.
void DirectorProtocol::dismiss_idle_on(const std::string& host) {
  for (const std::uint64_t worker : roster_.on_host(host)) {
    const bool begins = phase_ == Phase::preparing && configuration_.rank_of(worker) >= 0;
    if (begins || kept_.rank_of(worker) >= 0 || !roster_.stays(worker)) continue;
    if (roster_.has_joined(worker)) {
      dismiss(worker);
    } else {
      emit(KillWorker{.incarnation = worker});
      roster_.abandon(worker);
    }
  }
}

/// Gathers the same configuration without the hosts that are to be left.
void DirectorProtocol::gather_elsewhere() {
  if (is_scaling() && !has_changed()) {
    if (auto target = change_on_hosts(*scale_)) {
      scale_->aim_at(*target);
      gathering_.aim_at(std::move(*target));
    } else {
      give_up_scale(ErrorKind::unavailable, "the hosts that are left have no room for it");
    }
  } else if (!shrink_to_survivors()) {
    const std::string why = hosts_.no_other_has_room();
    if (kept_.number > 0) return fail(ErrorKind::internal, why);
    return finish(
        {.exit_code = static_cast<int>(ErrorKind::retry), .step = committed_, .reason = why});
  }
  spawn_missing(gathering_.target(), failures_.delay_s());
  start_timer(kJoinDeadline + failures_.delay_s());
  begin_if_complete();
}

/// Plans the ordered change, and what the run wants by itself, with the hosts that there are now.
void DirectorProtocol::change_anew() {
  if (is_between_configurations() || phase_ >= Phase::ending) return;
  place_change(0);
  warm_up();
  change_by_itself();
}

/// Orders what the run wants by itself, if no change is under way: first to leave hosts, then to
/// grow back.
void DirectorProtocol::change_by_itself() {
  if (hosts_.empty() || scale_ || is_between_configurations() || phase_ >= Phase::ending) return;
  if (stopping() || is_over()) return;
  std::vector<std::string> drained;
  for (const auto& [host, state] : hosts_)
    if (state == HostState::draining && planner().has_ranks(host.name))
      drained.push_back(host.name);
  if (!drained.empty()) return leave(std::move(drained));
  failed_leaves_ = 0;
  if (grow_.take_due()) grow();
}

/// Moves the ranks of hosts to others. If that fails, to fewer ranks without new workers.
void DirectorProtocol::leave(std::vector<std::string> hosts) {
  PendingScale change{.reason = ScaleReason::leave, .keeps_shape = true};
  change.request.without_hosts = std::move(hosts);
  auto target = change_on_hosts(change);
  if (!target) return stop_without_hosts();
  change.target = std::move(*target);
  order_by_itself(std::move(change));
}

void DirectorProtocol::grow() {
  if (!spec_.recovery.grow_back || kept_.num_ranks() >= wanted_.num_ranks()) return;
  auto target = planner().largest(wanted_, hosts_.available(), true);
  if (!target || target->shape.num_ranks() <= kept_.num_ranks()) return;
  grow_.grows();
  PendingScale change{.reason = ScaleReason::grow};
  const RunSpec::Mesh &from = kept_.shape.mesh, &to = target->shape.mesh;
  if (from.pp != to.pp) change.request.pp = to.pp;
  if (from.dp != to.dp) change.request.dp = to.dp;
  if (from.ep != to.ep) change.request.ep = to.ep;
  change.target = std::move(*target);
  order_by_itself(std::move(change));
}

void DirectorProtocol::order_by_itself(PendingScale change) {
  change.id = kOwnOrders + own_changes_++;
  scale_ = std::move(change);
  prepare_change();
}

void DirectorProtocol::handle(const GrowTimerRang& event) {
  const auto wait_s = grow_.rang(event.timer, event.now_s);
  if (!wait_s) return;
  if (*wait_s > 0) return start_grow_timer(*wait_s);
  change_by_itself();
}

void DirectorProtocol::start_grow_timer(double seconds) {
  emit(StartGrowTimer{.timer = grow_.start(), .seconds = seconds});
}

void DirectorProtocol::grow_later() {
  start_grow_timer(GrowClock::kInterval);
}

/// Notes the shape that an order has made as the one to grow back to. One that changes no mesh does
/// not say that a cluster which is too small has the right size.
void DirectorProtocol::note_wanted(const PendingScale& done) {
  const ScaleRequest& request = done.request;
  if (request.pp || request.dp || request.tp || request.ep ||
      done.target.shape.mesh == wanted_.mesh)
    wanted_ = done.target.shape;
}

}  // namespace troupe::actors
