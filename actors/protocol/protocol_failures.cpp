#include <algorithm>
#include <utility>

#include "actors/protocol/liveness.h"
#include "actors/protocol/protocol.h"

// Which workers are lost, and how the run goes on without them.

namespace troupe::actors {
namespace {

/// The time in which the exit of a dead peer must arrive after its symptom, in seconds.
constexpr double kSymptomGrace = 0.5;
/// After this many workers in a row that end before they join, and so many attempts, no more can be
/// spawned.
constexpr int kMaxFailedSpawns = 3;
constexpr int kAttemptsBeforeShrinking = 4;
/// Failures beyond restarts_per_hour that are allowed until the orderly end that they cause.
constexpr int kLastLosses = 10;
/// Attempts to save what a failed run has in memory.
constexpr int kLastAttempts = 4;

/// The GPU that may have failed; null if none has.
const WorkerGpu* failed_gpu(const WorkerFailed& event, const Roster::Worker& worker) {
  return event.of_gpu && worker.member.gpu.index >= 0 ? &worker.member.gpu : nullptr;
}

/// " (on GPU 1, NVIDIA H200, GPU-...)".
std::string gpu_text(const WorkerGpu& gpu) {
  return " (on GPU " + std::to_string(gpu.index) + ", " + gpu.name + ", " + gpu.uuid + ")";
}

}  // namespace

void DirectorProtocol::handle(const WorkerExited& event) {
  if (takeover_.adoption && phase_ != Phase::ending) return lose_left({event.incarnation});
  const Roster::Worker* worker = roster_.find(event.incarnation);
  if (!worker) return;
  if (phase_ == Phase::ending || worker->leaving) {
    roster_.forget(event.incarnation);
    if (phase_ == Phase::ending) end_if_alone();
    return;
  }
  const auto kind = static_cast<ErrorKind>(event.exit_code);
  if (kept_.number == 0 && is_users_mistake(kind)) {  // a replacement would make the same of it
    const std::string name = name_of_worker(event.incarnation);
    roster_.forget(event.incarnation);
    return fail(kind, name + " ended by " + event.cause);
  }
  lose({.incarnation = event.incarnation,
        .what = " ended by " + event.cause,
        .attempt = worker->attempt,
        .now_s = event.now_s});
}

void DirectorProtocol::handle(const WorkerFailed& event) {
  const Roster::Worker* worker = roster_.find(event.incarnation);
  if (phase_ == Phase::ending || !worker) return;
  const bool as_a_whole = event.configuration == 0;
  if (takeover_.adoption) {
    if (!as_a_whole) return;  // it halts soon
    emit(KillWorker{.incarnation = event.incarnation});
    return lose_left({event.incarnation});
  }
  // Then no peer can be the cause, and the configuration cannot begin with it.
  const bool cannot_halt = phase_ == Phase::gathering && event.configuration == gathering_.number();
  if (!as_a_whole && !cannot_halt &&
      (event.configuration != configuration_.number || phase_ == Phase::gathering))
    return;
  if (event.symptom && !cannot_halt) {
    if (failures_.symptom() || phase_ == Phase::gathering) return;
    failures_.wait_for_cause_of(event);
    return start_timer(std::max(kSymptomGrace, failures_.delay_s()));
  }
  // A GPU that fails in the same way again is not the one that a third attempt has.
  const WorkerGpu* const gpu = failed_gpu(event, *worker);
  const bool for_good =
      is_users_mistake(event.kind) || (!as_a_whole && !gpu && failures_.repeats(event, reached_));
  if (for_good && !is_newcomer(event.incarnation)) {
    const std::string what = name_of_worker(event.incarnation) + ": " + event.message;
    if (!can_undo_scale()) return fail(event.kind, what);
    give_up_scale(event.kind, what + "; the run goes on without the change");
    return gather(what);
  }
  std::string what = ": " + event.message;
  if (gpu) {
    what += gpu_text(*gpu);
    if (failures_.gpus().add(worker->host, gpu->uuid))
      what += "; this GPU has failed twice and is not used again";
  }
  emit(KillWorker{.incarnation = event.incarnation});
  lose({.incarnation = event.incarnation,
        .what = what,
        .attempt = std::max(worker->attempt, event.configuration),
        .now_s = event.now_s});
}

void DirectorProtocol::handle(const TimerRang& event) {
  if (event.timer != timer_) return;
  if (phase_ == Phase::ending) return emit(KillWorkers{});
  if (takeover_.adoption) return adoption_is_late();
  if (phase_ == Phase::gathering) return gathering_is_late(event.now_s);
  if (failures_.symptom()) return symptom_is_the_cause(event.now_s);
  if (phase_ == Phase::saving && !writing()) write_checkpoint();
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
    lose({.incarnation = incarnation,
          .what = ": " + waited + "its answer",
          .attempt = gathering_.number(),
          .now_s = now_s});
  }
}

/// Takes the symptom as the cause, because no worker's exit arrived: the same workers connect anew.
void DirectorProtocol::symptom_is_the_cause(double now_s) {
  const WorkerFailed symptom = *failures_.symptom();
  const std::string cause = name_of_worker(symptom.incarnation) + ": " + symptom.message;
  failures_.lost(symptom.configuration, gathering_.number());
  emit(ReportWorkerLost{.rank = configuration_.rank_of(symptom.incarnation),
                        .cause = told_with_delay(cause),
                        .has_part = true,
                        .ends_run = spec_.recovery.on_failure == RunSpec::OnFailure::stop});
  const Roster::Worker* worker = roster_.find(symptom.incarnation);
  regroup({.cause = cause, .host = worker ? worker->host : "", .attempt = 0, .now_s = now_s});
}

/// What is lost with a worker.
Standing DirectorProtocol::standing_of(std::uint64_t incarnation) const {
  Standing standing;
  // While a new configuration is gathered, ranks in a configuration that was given up count for
  // nothing.
  const bool gathers = phase_ == Phase::gathering;
  standing.rank = configuration_.rank_of(incarnation);
  standing.newcomer = is_newcomer(incarnation);
  standing.has_begun = standing.rank >= 0 && !gathers;
  standing.has_part =
      !standing.newcomer && (standing.has_begun || kept_.rank_of(incarnation) >= 0 ||
                             (gathers && gathering_.rank_of(incarnation) >= 0));
  if (standing.rank >= configuration_.num_ranks()) standing.rank = -1;
  return standing;
}

void DirectorProtocol::lose(const Loss& loss) {
  const std::string cause = name_of_worker(loss.incarnation) + loss.what;
  const Standing standing = standing_of(loss.incarnation);
  const std::string host = roster_.find(loss.incarnation)->host;
  roster_.forget(loss.incarnation);
  go_on_without(standing, {},
                {.cause = cause, .host = host, .attempt = loss.attempt, .now_s = loss.now_s});
}

/// Goes on without one worker, or without a host's; `others` are the further ranks on that.
void DirectorProtocol::go_on_without(const Standing& lost, const std::vector<int>& others,
                                     const RegroupCause& why) {
  if (lost.has_part) failures_.lost(why.attempt, gathering_.number());
  emit(ReportWorkerLost{
      .rank = lost.rank,
      .others = others,
      .cause = lost.has_part ? told_with_delay(why.cause) : why.cause,
      .has_part = lost.has_part,
      .ends_run = lost.has_part && spec_.recovery.on_failure == RunSpec::OnFailure::stop});
  if (lost.has_part)
    regroup(why);
  else if (lost.newcomer)
    lose_newcomer(why.cause, lost.has_begun);
  else
    begin_if_complete();  // its answer to Halt may have been the last one missing
}

/// The cause, and how long the next attempt waits, if it does.
std::string DirectorProtocol::told_with_delay(const std::string& cause) const {
  const double delay_s = failures_.delay_s();
  if (delay_s == 0 || failures_.num_attempts() >= WorkerFailures::kMaxAttempts) return cause;
  return cause + "; tried again in " + std::to_string(static_cast<int>(delay_s)) + " s";
}

/// Goes on without the lost worker or connection, as the manifest's [recovery] says.
void DirectorProtocol::regroup(const RegroupCause& why) {
  failures_.add(why.now_s, why.host, why.whole_host);
  if (ends_after_failures(why.cause)) return;
  if (can_undo_scale()) scale_failed(why.cause);
  if (!shrink_to_survivors())
    return fail(ErrorKind::internal, why.cause + "; no smaller cluster can go on");
  gather(why.cause);
}

/// Whether this failure ends the run, which first saves what it has if it can. If it only exceeds
/// restarts_per_hour, the run stops in order.
bool DirectorProtocol::ends_after_failures(const std::string& cause) {
  const int allowed = spec_.recovery.restarts_per_hour;
  const std::int64_t excess = std::int64_t{failures_.num_in_last_hour()} - allowed;
  if (excess > 0)
    end_.stop("more workers were lost within an hour than recovery.restarts_per_hour = " +
                  std::to_string(allowed) + "; the last: " + cause,
              static_cast<int>(ErrorKind::retry));
  if (excess > kLastLosses) {
    finish({.exit_code = static_cast<int>(ErrorKind::retry),
            .step = committed_,
            .reason = *end_.stop_reason() +
                      "; so many more were lost that the state could not be saved"});
    return true;
  }
  const int attempts = failures_.num_attempts();
  if (end_.failure()) {
    if (attempts < kLastAttempts) return false;
    give_up(cause);
  } else if (spec_.recovery.on_failure == RunSpec::OnFailure::stop) {
    fail(ErrorKind::internal, cause);
  } else if (attempts >= WorkerFailures::kMaxAttempts) {
    fail(ErrorKind::internal,
         std::to_string(attempts) +
             " attempts in a row ended before a step was committed; the last: " + cause);
  } else {
    return false;
  }
  return true;
}

/// If lost workers are not replaced, makes the cluster as large as the workers that are left allow,
/// and as large as the hosts do that may have ranks. False if they allow none.
bool DirectorProtocol::shrink_to_survivors() {
  const bool cannot_spawn =
      roster_.num_failed_spawns() >= kMaxFailedSpawns &&
      (end_.failure() || failures_.num_attempts() >= kAttemptsBeforeShrinking);
  const bool replaces = spec_.recovery.on_failure != RunSpec::OnFailure::shrink && !cannot_spawn;
  if (!hosts_.empty()) return aim_at_hosts(kept_.number > 0 ? kept_.shape : wanted_, replaces);
  if (replaces) return true;
  const std::set<int> lost = lost_ranks(kept_, roster_);
  if (lost.empty()) return true;
  auto smaller = shrunk(spec_, kept_.shape, lost);
  if (smaller) gathering_.aim_at(std::move(*smaller));
  return smaller.has_value();
}

}  // namespace troupe::actors
