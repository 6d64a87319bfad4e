#include <algorithm>
#include <utility>

#include "actors/protocol/liveness.h"
#include "actors/protocol/protocol.h"

// How the cluster changes: who is lost, which worker becomes which rank, when an epoch can begin.

namespace troupe::actors {
namespace {

using Effects = std::vector<Effect>;

constexpr double kHour = 3600;
/// So many workers in a row that end before they join: no more can be spawned.
constexpr int kMaxFailedSpawns = 3;
/// Losses beyond restarts_per_hour on the way to the orderly end that they call for.
constexpr int kLastAttempts = 10;

void append(Effects& effects, const Effects& more) {
  effects.insert(effects.end(), more.begin(), more.end());
}

/// SplitMix64 (Steele, Lea, Flood 2014): distinct for distinct x.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

Effects DirectorProtocol::handle(const Started&) {
  return gather("the run starts");
}

// --- gathering

/// A new epoch is to begin: everybody stops, missing workers are spawned.
Effects DirectorProtocol::gather(const std::string& reason, bool reconnect) {
  phase_ = Phase::gathering;
  symptom_.reset();
  if (!publishing_) writing_.reset();  // half a checkpoint is none
  ++number_;
  Effects effects;
  bool anybody = false;
  for (auto& [incarnation, worker] : workers_) {
    worker.inventory.reset();
    worker.halts = worker.joined;
    anybody |= worker.halts;
  }
  cool_down();
  if (anybody)
    effects.push_back(OrderHalt{.epoch = number_,
                                .kept = kept_.number,
                                .reason = reason,
                                .reconnect = reconnect,
                                .change = rescaling_ ? to_string(pending_->request) : ""});
  append(effects, spawn_missing(target_));
  effects.push_back(start_timer(kJoinDeadline));
  append(effects, begin_if_complete());
  return effects;
}

/// A worker for every rank of a shape, as far as there are any (else 0): who has been there keeps
/// the place, so that the least state moves.
std::vector<std::uint64_t> DirectorProtocol::assign_ranks(const ClusterShape& shape) const {
  const auto [pp, dp] = shape.mesh;
  std::vector<std::uint64_t> assignment(static_cast<std::size_t>(shape.num_ranks()), 0);
  for (int replica = 0; replica < dp && kept_.number > 0; ++replica) {
    const auto at = static_cast<std::size_t>(replica);
    const int old = at < kept_replica_.size() ? kept_replica_[at] : replica;
    const auto there = members_left(old);
    // Fewer stages than before, and no more workers than stages: they close ranks.
    const bool closes = pp < kept_.shape.mesh.pp && static_cast<int>(there.size()) <= pp;
    int next = 0;
    for (const auto& [stage, incarnation] : there) {
      const int stage_now = closes ? next++ : stage;
      if (stage_now < pp)
        assignment[static_cast<std::size_t>(replica * pp + stage_now)] = incarnation;
    }
  }
  // Then those who hold no part of the last epoch, joined ones first, in the order of their ids.
  std::vector<std::pair<std::pair<bool, int>, std::uint64_t>> idle;
  for (const auto& [incarnation, worker] : workers_)
    if (kept_.rank_of(incarnation) < 0 && !worker.leaving)
      idle.push_back({{!worker.joined, worker.id}, incarnation});
  std::ranges::sort(idle);
  auto next = idle.begin();
  for (auto& taken : assignment)
    if (taken == 0 && next != idle.end()) taken = (next++)->second;
  return assignment;
}

/// Stage and incarnation of the workers of a replica of the last epoch that are still there.
std::vector<std::pair<int, std::uint64_t>> DirectorProtocol::members_left(int replica) const {
  std::vector<std::pair<int, std::uint64_t>> left;
  const auto [pp, dp] = kept_.shape.mesh;
  for (int stage = 0; stage < pp && replica < dp; ++stage) {
    const auto found = workers_.find(kept_.members.at(replica * pp + stage).incarnation);
    if (found != workers_.end() && !found->second.leaving) left.emplace_back(stage, found->first);
  }
  return left;
}

Effects DirectorProtocol::spawn_missing(const ClusterShape& shape) {
  Effects effects;
  const auto assignment = assign_ranks(shape);
  for (std::size_t rank = 0; rank < assignment.size(); ++rank)
    if (assignment[rank] == 0) effects.push_back(spawn(static_cast<int>(rank)));
  return effects;
}

Effect DirectorProtocol::spawn(int rank) {
  const int id = free_ids_.empty() ? next_id_++ : free_ids_.extract(free_ids_.begin()).value();
  const std::uint64_t incarnation = mix(seed_ + num_spawned_++);
  workers_[incarnation] = {.id = id, .member = {.id = id, .incarnation = incarnation}};
  return SpawnWorker{.id = id, .incarnation = incarnation, .rank = rank};
}

bool DirectorProtocol::expects_workers() const {
  return std::ranges::any_of(workers_, [](const auto& worker) { return !worker.second.joined; });
}

void DirectorProtocol::forget(std::uint64_t incarnation) {
  const auto found = workers_.find(incarnation);
  free_ids_.insert(found->second.id);
  workers_.erase(found);
}

Effects DirectorProtocol::handle(const MemberJoined& event) {
  const auto found = workers_.find(event.member.incarnation);
  if (found == workers_.end() || found->second.joined) return {};
  found->second.member = event.member;
  found->second.member.id = found->second.id;
  found->second.joined = true;
  num_failed_spawns_ = 0;
  return phase_ == Phase::gathering ? one_less_is_missing() : warm_up();
}

Effects DirectorProtocol::handle(const MemberHalted& event) {
  const auto found = workers_.find(event.incarnation);
  if (phase_ != Phase::gathering || event.epoch != number_ || found == workers_.end()) return {};
  found->second.inventory = event.inventory;
  if (!event.address.empty()) found->second.member.address = event.address;
  return one_less_is_missing();
}

/// Looking at all workers after each answer of each would take long where there are many.
Effects DirectorProtocol::one_less_is_missing() {
  return --missing_ > 0 ? Effects{} : begin_if_complete();
}

/// Once everybody is there and has stopped.
Effects DirectorProtocol::begin_if_complete() {
  if (phase_ != Phase::gathering) return {};
  missing_ = 0;
  for (const auto& [incarnation, worker] : workers_)
    if (worker.halts && !worker.leaving && !worker.inventory) ++missing_;
  rank_assignment_ = assign_ranks(target_);
  for (const std::uint64_t incarnation : rank_assignment_)
    if (!has_joined(incarnation)) ++missing_;
  if (missing_ > 0) return {};
  Epoch next = epoch_of(rank_assignment_, target_);
  const StatePlan state = choose_state(next);
  // The checkpoint to load from may go when a newer one has come.
  if (!state.from_memory && publishing_) return {};
  epoch_ = std::move(next);
  committed_ = state.step;
  phase_ = Phase::preparing;
  answered_.clear();
  move_s_ = 0;
  ++timer_;  // the deadline is met
  return {StartEpoch{.epoch = epoch_, .state = state}};
}

bool DirectorProtocol::has_joined(std::uint64_t incarnation) const {
  const auto found = workers_.find(incarnation);
  return found != workers_.end() && found->second.joined;
}

/// The epoch of the workers that are assigned a rank, and of those that must give away what they
/// hold of the last one.
Epoch DirectorProtocol::epoch_of(const std::vector<std::uint64_t>& assignment,
                                 const ClusterShape& shape) const {
  Epoch next{.run = mix(~seed_), .number = number_, .shape = shape, .members = {}};
  for (const std::uint64_t incarnation : assignment)
    next.members.push_back(workers_.at(incarnation).member);
  for (const auto& [rank, member] : kept_.members) {
    const auto found = workers_.find(member.incarnation);
    if (found != workers_.end() && !found->second.leaving && next.rank_of(member.incarnation) < 0)
      next.members.push_back(found->second.member);
  }
  return next;
}

StatePlan DirectorProtocol::choose_state(const Epoch& next) const {
  if (kept_.number > 0) {
    std::map<std::uint64_t, StateInventory> inventory;
    for (const auto& [incarnation, worker] : workers_)
      if (worker.inventory) inventory[incarnation] = *worker.inventory;
    if (auto plan = plan_state(spec_, kept_, next, inventory, committed_)) return *plan;
  }
  return {.step = std::max(saved_, first_step_)};
}

Effects DirectorProtocol::handle(const ReplicaReady& event) {
  if (phase_ != Phase::preparing || event.epoch != epoch_.number) return {};
  move_s_ = std::max(move_s_, event.move_s);
  return all_answered(event.replica) ? settle() : Effects{};
}

/// All ranks have reached the epoch: what was before it is forgotten.
Effects DirectorProtocol::settle() {
  Effects effects{ReportEpoch{.move_s = move_s_}};
  const auto leave = [&](std::uint64_t incarnation) {
    workers_[incarnation].leaving = true;
    effects.push_back(OrderLeave{.incarnation = incarnation});
  };
  while (epoch_.members.size() > epoch_.num_ranks()) {
    leave(epoch_.members.back().incarnation);
    epoch_.members.pop_back();
  }
  kept_ = epoch_;
  keep_replicas();
  spares_due_ = true;
  if (pending_ && !rescaling_) append(effects, spawn_missing(pending_->shape));
  phase_ = Phase::running;
  append(effects, warm_up());
  append(effects, committed_ == 0 && saved_ < 0 && spec_.checkpoint.initial ? save() : go_on());
  return effects;
}

/// As many warm processes as [recovery] wants. Not before the first step of an epoch is committed:
/// a process that starts would slow it down.
Effects DirectorProtocol::keep_spares() {
  Effects effects;
  int idle = 0;
  for (auto& [incarnation, worker] : workers_) {
    if (worker.leaving || kept_.rank_of(incarnation) >= 0) continue;
    if (++idle <= spec_.recovery.spares || pending_ || !worker.joined) continue;
    worker.leaving = true;
    effects.push_back(OrderLeave{.incarnation = incarnation});
  }
  for (; idle < spec_.recovery.spares; ++idle) effects.push_back(spawn(-1));
  return effects;
}

/// Not all came in time: those who did not are lost.
Effects DirectorProtocol::gathering_is_late(double now_s) {
  std::vector<std::uint64_t> late;
  for (const auto& [incarnation, worker] : workers_) {
    const bool is_assigned =
        std::ranges::find(rank_assignment_, incarnation) != rank_assignment_.end();
    if ((is_assigned && !worker.joined) || (worker.halts && !worker.leaving && !worker.inventory))
      late.push_back(incarnation);
  }
  const std::string waited =
      "waited " + std::to_string(static_cast<int>(kJoinDeadline)) + " s for ";
  if (kept_.number == 0 && !late.empty()) {
    std::string who;
    for (const auto incarnation : late)
      who += (who.empty() ? "" : ", ") + name_of_worker(incarnation);
    return fail(ErrorKind::unavailable, waited + who + " to join; see its log");
  }
  Effects effects;
  for (const std::uint64_t incarnation : late) {
    if (phase_ != Phase::gathering) break;
    effects.push_back(KillWorker{.incarnation = incarnation});
    append(effects, lose(incarnation, waited + "its answer", now_s));
  }
  return effects;
}

// --- losses

Effects DirectorProtocol::lose(std::uint64_t incarnation, const std::string& cause, double now_s) {
  const int rank = epoch_.rank_of(incarnation);
  const bool is_assigned =
      phase_ == Phase::gathering &&
      std::ranges::find(rank_assignment_, incarnation) != rank_assignment_.end();
  const std::string who = name_of_worker(incarnation);
  const bool newcomer = is_newcomer(incarnation);
  if (!workers_.at(incarnation).joined) ++num_failed_spawns_;
  forget(incarnation);
  Effects effects;
  // While a new epoch is gathered, places in one that was given up count for nothing.
  const bool begun = rank >= 0 && phase_ != Phase::gathering;
  const bool has_part = !newcomer && (begun || is_assigned || kept_.rank_of(incarnation) >= 0);
  effects.push_back(ReportWorkerLost{
      .rank = rank < epoch_.num_ranks() ? rank : -1,
      .cause = who + " ended by " + cause,
      .has_part = has_part,
      .ends_run = has_part && spec_.recovery.on_failure == RunSpec::OnFailure::stop});
  if (has_part) {
    append(effects, regroup(who + " ended by " + cause, now_s));
  } else if (newcomer) {
    append(effects, lose_newcomer(who + " ended by " + cause, begun));
  } else if (phase_ == Phase::gathering) {
    append(effects,
           begin_if_complete());  // its answer to the Halt was perhaps the last one missing
  }
  return effects;
}

/// Goes on without what is lost, as [recovery] says.
Effects DirectorProtocol::regroup(const std::string& cause, double now_s) {
  failure_times_.push_back(now_s);
  while (failure_times_.front() < now_s - kHour) failure_times_.pop_front();
  const auto excess = std::ssize(failure_times_) - spec_.recovery.restarts_per_hour;
  if (excess > 0 && !stop_reason_) {
    stop_code_ = static_cast<int>(ErrorKind::retry);
    stop_reason_ = "more workers were lost within an hour than recovery.restarts_per_hour = " +
                   std::to_string(spec_.recovery.restarts_per_hour) + "; the last: " + cause;
  }
  if (excess > kLastAttempts)
    return finish({.exit_code = static_cast<int>(ErrorKind::retry),
                   .step = committed_,
                   .reason = *stop_reason_ + "; so many more were lost that the state could not be "
                                             "saved"});
  if (spec_.recovery.on_failure == RunSpec::OnFailure::stop)
    return fail(ErrorKind::internal, cause);
  if (rescaling_ && kept_.number > 0 && kept_.shape != pending_->shape) {
    rescaling_ = false;  // the order stands, and is carried out after the recovery
    target_ = kept_.shape;
    keep_replicas();
  }
  const bool shrinks = spec_.recovery.on_failure == RunSpec::OnFailure::shrink ||
                       num_failed_spawns_ >= kMaxFailedSpawns;
  if (const std::set<int> lost = lost_ranks(); shrinks && !lost.empty()) {
    const auto smaller = shrunk(spec_, kept_.shape, lost);
    if (!smaller) return fail(ErrorKind::internal, cause + "; no smaller cluster can go on");
    target_ = smaller->shape;
    kept_replica_ = smaller->replicas;
  }
  return gather(cause);
}

/// Ranks of the last epoch whose workers are gone.
std::set<int> DirectorProtocol::lost_ranks() const {
  std::set<int> lost;
  for (int rank = 0; rank < kept_.num_ranks() && kept_.number > 0; ++rank)
    if (!workers_.contains(kept_.members.at(rank).incarnation)) lost.insert(rank);
  return lost;
}

void DirectorProtocol::keep_replicas() {
  kept_replica_.clear();
  for (int replica = 0; replica < target_.mesh.dp; ++replica) kept_replica_.push_back(replica);
}

std::string DirectorProtocol::name_of_worker(std::uint64_t incarnation) const {
  if (const int rank = epoch_.rank_of(incarnation); rank >= 0 && rank < epoch_.num_ranks())
    return name_of(epoch_.shape, rank);
  const auto assigned = std::ranges::find(rank_assignment_, incarnation);
  if (assigned != rank_assignment_.end() && phase_ == Phase::gathering)
    return name_of(target_, static_cast<int>(assigned - rank_assignment_.begin()));
  if (const auto next = std::ranges::find(warming_, incarnation);
      pending_ && next != warming_.end())
    return name_of(pending_->shape, static_cast<int>(next - warming_.begin()));
  const auto found = workers_.find(incarnation);
  return "worker " + (found == workers_.end() ? "?" : std::to_string(found->second.id));
}

}  // namespace troupe::actors
