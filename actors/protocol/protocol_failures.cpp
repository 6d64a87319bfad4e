#include <algorithm>
#include <utility>

#include "actors/protocol/liveness.h"
#include "actors/protocol/protocol.h"

// Which workers are lost, and how the run goes on without them.

namespace troupe::actors {
namespace {

/// The time in which the exit of a dead peer must arrive after its symptom, in seconds.
constexpr double kSymptomGrace = 0.5;
/// After this many workers in a row that end before they join, no more can be spawned.
constexpr int kMaxFailedSpawns = 3;
/// Failures beyond restarts_per_hour that are allowed until the orderly end that they cause.
constexpr int kLastAttempts = 10;

}  // namespace

void DirectorProtocol::handle(const WorkerExited& event) {
  const Roster::Worker* worker = roster_.find(event.incarnation);
  if (!worker) return;
  if (phase_ == Phase::ending || worker->leaving) {
    roster_.forget(event.incarnation);
    if (phase_ == Phase::ending) end_if_alone();
    return;
  }
  if (kept_.number == 0 && !event.by_signal) {
    // No epoch has run yet and the worker ended by itself: a replacement would too.
    const std::string name = name_of_worker(event.incarnation);
    roster_.forget(event.incarnation);
    return fail(ErrorKind::internal, name + " ended by " + event.cause + "; see its log");
  }
  lose(event.incarnation, " ended by " + event.cause, event.now_s);
}

void DirectorProtocol::handle(const WorkerFailed& event) {
  if (phase_ == Phase::ending || !roster_.contains(event.incarnation)) return;
  const bool as_a_whole = event.epoch == 0;
  if (!as_a_whole && (event.epoch != epoch_.number || phase_ == Phase::gathering)) return;
  if (event.symptom) {
    if (failures_.symptom() || phase_ == Phase::gathering) return;
    failures_.wait_for_cause_of(event);
    return start_timer(kSymptomGrace);
  }
  if (!is_newcomer(event.incarnation) &&
      (is_users_mistake(event.kind) || (!as_a_whole && failures_.repeats(event, reached_))))
    return fail(event.kind, name_of_worker(event.incarnation) + ": " + event.message);
  emit(KillWorker{.incarnation = event.incarnation});
  lose(event.incarnation, ": " + event.message, event.now_s);
}

void DirectorProtocol::handle(const TimerRang& event) {
  if (event.timer != timer_) return;
  if (phase_ == Phase::ending) return emit(KillWorkers{});
  if (phase_ == Phase::gathering) return gathering_is_late(event.now_s);
  if (failures_.symptom()) symptom_is_the_cause(event.now_s);
}

/// Treats workers that did not join or halt in time as lost.
void DirectorProtocol::gathering_is_late(double now_s) {
  const std::vector<std::uint64_t> late = gathering_.missing(roster_);
  const std::string waited =
      "waited " + std::to_string(static_cast<int>(kJoinDeadline)) + " s for ";
  if (kept_.number == 0 && !late.empty()) {
    std::string names;
    for (const auto incarnation : late)
      names += (names.empty() ? "" : ", ") + name_of_worker(incarnation);
    return fail(ErrorKind::unavailable, waited + names + " to join; see its log");
  }
  for (const std::uint64_t incarnation : late) {
    if (phase_ != Phase::gathering) break;
    emit(KillWorker{.incarnation = incarnation});
    lose(incarnation, ": " + waited + "its answer", now_s);
  }
}

/// Takes the symptom as the cause, because no worker's exit arrived: the same workers connect anew.
void DirectorProtocol::symptom_is_the_cause(double now_s) {
  const WorkerFailed symptom = *failures_.symptom();
  const std::string cause = name_of_worker(symptom.incarnation) + ": " + symptom.message;
  emit(ReportWorkerLost{.rank = epoch_.rank_of(symptom.incarnation),
                        .cause = cause,
                        .has_part = true,
                        .ends_run = spec_.recovery.on_failure == RunSpec::OnFailure::stop});
  regroup(cause, now_s);
}

void DirectorProtocol::lose(std::uint64_t incarnation, const std::string& what, double now_s) {
  const int rank = epoch_.rank_of(incarnation);
  const std::string cause = name_of_worker(incarnation) + what;
  const bool newcomer = is_newcomer(incarnation);
  // While a new epoch is gathered, ranks in an epoch that was given up count for nothing.
  const bool gathers = phase_ == Phase::gathering;
  const bool has_begun = rank >= 0 && !gathers;
  const bool has_part = !newcomer && (has_begun || kept_.rank_of(incarnation) >= 0 ||
                                      (gathers && gathering_.rank_of(incarnation) >= 0));
  roster_.forget(incarnation);
  emit(ReportWorkerLost{
      .rank = rank < epoch_.num_ranks() ? rank : -1,
      .cause = cause,
      .has_part = has_part,
      .ends_run = has_part && spec_.recovery.on_failure == RunSpec::OnFailure::stop});
  if (has_part)
    regroup(cause, now_s);
  else if (newcomer)
    lose_newcomer(cause, has_begun);
  else
    begin_if_complete();  // its answer to Halt may have been the last one missing
}

/// Goes on without the lost worker or connection, as the manifest's [recovery] says.
void DirectorProtocol::regroup(const std::string& cause, double now_s) {
  failures_.add(now_s);
  if (stops_after_failures(cause)) return;
  if (is_scaling() && kept_.number > 0 && kept_.shape != scale_->shape) {
    scale_->is_under_way = false;  // the order stands, and is carried out after the recovery
    gathering_.aim_at({.shape = kept_.shape});
  }
  if (!shrink_to_survivors())
    return fail(ErrorKind::internal, cause + "; no smaller cluster can go on");
  gather(cause);
}

/// Whether this failure ends the run at once. If it only exceeds restarts_per_hour, the run stops
/// in order.
bool DirectorProtocol::stops_after_failures(const std::string& cause) {
  const int allowed = spec_.recovery.restarts_per_hour;
  const std::int64_t excess = std::int64_t{failures_.num_in_last_hour()} - allowed;
  if (excess > 0)
    end_.stop("more workers were lost within an hour than recovery.restarts_per_hour = " +
                  std::to_string(allowed) + "; the last: " + cause,
              static_cast<int>(ErrorKind::retry));
  if (excess > kLastAttempts) {
    finish({.exit_code = static_cast<int>(ErrorKind::retry),
            .step = committed_,
            .reason = *end_.stop_reason() +
                      "; so many more were lost that the state could not be saved"});
    return true;
  }
  if (spec_.recovery.on_failure != RunSpec::OnFailure::stop) return false;
  fail(ErrorKind::internal, cause);
  return true;
}

/// If lost workers are not replaced, makes the cluster as large as the workers that are left allow.
/// False if they allow none.
bool DirectorProtocol::shrink_to_survivors() {
  const bool shrinks = spec_.recovery.on_failure == RunSpec::OnFailure::shrink ||
                       roster_.num_failed_spawns() >= kMaxFailedSpawns;
  if (!shrinks) return true;
  const std::set<int> lost = lost_ranks(kept_, roster_);
  if (lost.empty()) return true;
  auto smaller = shrunk(spec_, kept_.shape, lost);
  if (smaller) gathering_.aim_at(std::move(*smaller));
  return smaller.has_value();
}

}  // namespace troupe::actors
