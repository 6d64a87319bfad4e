#include <algorithm>
#include <utility>

#include "actors/protocol/liveness.h"
#include "actors/protocol/protocol.h"

// How a configuration begins: all workers halt, missing ones are spawned, and all receive their
// state.

namespace troupe::actors {
namespace {

/// How long workers of an earlier director may take to tell what they have, in seconds: their
/// actors do, whatever they compute.
constexpr double kAdoptionDeadline = 10;

}  // namespace

void DirectorProtocol::handle(const Started&) {
  if (takeover_.adoption) {
    takeover_.adoption->start();
    start_timer(kAdoptionDeadline);
    return adopt_if_complete();
  }
  if (!hosts_.empty() || !spec_.cluster.hosts.empty()) {
    if (hosts_.empty() || !shrink_to_survivors()) return finish_without_room();
    tell_use_of_hosts(gathering_.target().hosts);
  }
  gather("the run starts");
}

void DirectorProtocol::finish_without_room() {
  finish({.exit_code = static_cast<int>(ErrorKind::unavailable),
          .step = committed_,
          .reason =
              hosts_.empty() ? "no host has joined" : "the hosts have no room: " + hosts_.names()});
}

void DirectorProtocol::gather(const std::string& reason, bool reconnect) {
  phase_ = Phase::gathering;
  ahead_.end();
  failures_.forget_symptom();
  checkpoint_.give_up();
  if (save_ && !writing()) save_->step.reset();  // the order stands
  cool_down();
  if (gathering_.open(roster_))
    emit(OrderHalt{.halt = {.configuration = gathering_.number(),
                            .kept = kept_.number,
                            .reconnect = reconnect,
                            .reason = reason},
                   .change = is_scaling() ? to_string(scale_->request) : ""});
  spawn_missing(gathering_.target(), failures_.delay_s());
  start_timer(kJoinDeadline + failures_.delay_s());
  begin_if_complete();
}

void DirectorProtocol::spawn_missing(const TargetShape& target, double delay_s) {
  const RankAssignment assignment = assign_ranks(target, kept_, roster_);
  for (std::size_t rank = 0; rank < assignment.size(); ++rank)
    if (assignment[rank] == 0)
      spawn(static_cast<int>(rank), target.hosts.empty() ? "" : target.hosts[rank], delay_s);
}

void DirectorProtocol::spawn(int rank, const std::string& host, double delay_s) {
  const Member& member = roster_.spawn(gathering_.number(), host);
  emit(SpawnWorker{.id = member.id,
                   .incarnation = member.incarnation,
                   .host = host,
                   .rank = rank,
                   .delay_s = delay_s,
                   .failed_gpus = failures_.gpus().of_host(host)});
}

void DirectorProtocol::handle(const MemberJoined& event) {
  if (!roster_.join(event.member)) return;
  if (phase_ != Phase::gathering) return warm_up();
  if (gathering_.one_less()) begin_if_complete();
}

void DirectorProtocol::handle(const Halted& event) {
  if (phase_ != Phase::gathering || event.configuration != gathering_.number() ||
      !roster_.contains(event.incarnation))
    return;
  gathering_.on_halted(event.incarnation, event.inventory);
  if (!event.address.empty()) roster_.moved(event.incarnation, event.address);
  if (gathering_.one_less()) begin_if_complete();
}

/// Starts the configuration once all its workers have joined and halted.
void DirectorProtocol::begin_if_complete() {
  if (phase_ != Phase::gathering || takeover_.adoption || !gathering_.count(kept_, roster_)) return;
  Configuration next = gathering_.configuration(kept_, roster_);
  if (takeover_.chooses_state)
    committed_ = takeover_.newest_held = gathering_.newest_held(roster_, first_step_);
  const StatePlan state = choose_state(next);
  // Publishing a newer checkpoint may remove the one to load from.
  if (!state.from_memory && checkpoint_.publishing()) return;
  // A run that has failed does not compute again what was lost with its workers.
  if (end_.failure() && !state.from_memory && state.step < committed_)
    return give_up("memory has it no more: too many workers were lost");
  if (takeover_.chooses_state) take_up(state);
  configuration_ = std::move(next);
  go_back_to(state);
  phase_ = Phase::preparing;
  ready_.begin(configuration_.shape.mesh.dp);
  move_s_ = 0;
  ++timer_;  // the gathering's deadline no longer counts
  emit(StartConfiguration{
      .configuration = configuration_, .state = state, .saves_only = end_.failure().has_value()});
}

/// Takes up the state of a configuration; steps after it that were committed are computed again.
void DirectorProtocol::go_back_to(const StatePlan& state) {
  const bool goes_back = state.step < committed_;
  if (goes_back) back_to_ = catch_up() ? std::min(back_to_, state.step) : state.step;
  committed_ = state.step;
  if (goes_back)
    emit(ReportWentBack{.way = {.back_to = committed_, .reached = reached_},
                        .from_memory = state.from_memory});
}

StatePlan DirectorProtocol::choose_state(const Configuration& next) const {
  const std::int64_t on_disk = std::max(checkpoint_.saved(), first_step_);
  if (kept_.number > 0) {
    const auto plan = plan_state(spec_, kept_, next, gathering_.inventories(roster_), committed_);
    if (plan && plan->step >= on_disk) return *plan;
  }
  return {.step = on_disk};
}

void DirectorProtocol::handle(const ReplicaReady& event) {
  if (phase_ != Phase::preparing || event.configuration != configuration_.number) return;
  move_s_ = std::max(move_s_, event.move_s);
  if (!event.difference.empty()) {
    if (!spec_.data_parallel.repairs)
      return finish({.exit_code = static_cast<int>(ErrorKind::internal),
                     .step = committed_,
                     .reason = event.difference + ", after step " + std::to_string(committed_) +
                               "; data_parallel.on_difference = \"repair\" makes them equal"});
    emit(ReportRepair{.difference = event.difference});
  }
  ready_.add(event.replica);
  if (ready_.complete()) settle();
}

/// Begins to run the configuration, which all ranks have reached; the one before is forgotten.
void DirectorProtocol::settle() {
  emit(ReportConfiguration{.move_s = move_s_});
  while (configuration_.members.size() > configuration_.num_ranks()) {
    dismiss(configuration_.members.back().incarnation);
    configuration_.members.pop_back();
  }
  kept_ = configuration_;
  gathering_.aim_at({.shape = kept_.shape, .replicas = {}, .hosts = planner().kept_hosts()});
  tell_use_of_hosts(planner().kept_hosts());
  spares_due_ = true;
  phase_ = Phase::running;
  place_change(0);
  warm_up();
  change_by_itself();
  if (committed_ == 0 && saved() < 0 && spec_.checkpoint.initial)
    save();
  else if (std::exchange(takeover_.does_what_was_due, false) && committed_ > 0)
    after_commit();
  else
    go_on();
}

/// Keeps as many spare processes as recovery.spares asks for. Called after the first step of a
/// configuration is committed, because a process that starts would slow it down.
void DirectorProtocol::keep_spares() {
  std::vector<std::uint64_t> idle;
  for (const auto& [incarnation, worker] : roster_)
    if (!worker.leaving && kept_.rank_of(incarnation) < 0) idle.push_back(incarnation);
  const auto wanted = static_cast<std::size_t>(spec_.recovery.spares);
  for (std::size_t i = wanted; i < idle.size() && !scale_; ++i)
    if (roster_.has_joined(idle[i])) dismiss(idle[i]);
  for (std::size_t i = idle.size(); i < wanted; ++i)
    if (const auto host = planner().host_for_spare()) spawn(-1, *host, 0);
}

void DirectorProtocol::dismiss(std::uint64_t incarnation) {
  roster_.leave(incarnation);
  emit(OrderLeave{.incarnation = incarnation});
}

}  // namespace troupe::actors
