#include "actors/protocol.h"

#include <cmath>
#include <utility>

#include "stages/optimizer.h"

namespace troupe::actors {
namespace {

using Effects = std::vector<Effect>;

// Deadlines of what nobody else bounds, in seconds.
constexpr double kJoinDeadline = 60;   // a worker's start: exec, libraries, connect
constexpr double kSymptomGrace = 0.5;  // for the exit of a dead peer to arrive after its symptom
constexpr double kFinishDeadline = 5;  // for workers to end by themselves before they are killed

std::string name_of(int rank, const Epoch& epoch) {
  return "rank " + std::to_string(rank) + " (replica " + std::to_string(rank / epoch.mesh.pp) +
         ", stage " + std::to_string(rank % epoch.mesh.pp) + ")";
}

}  // namespace

DirectorProtocol::DirectorProtocol(RunSpec spec, std::int64_t first_step, std::int64_t saved_step,
                                   std::vector<std::uint64_t> incarnations)
    : spec_(std::move(spec)),
      epoch_(first_epoch(spec_)),
      committed_(first_step),
      saved_(saved_step) {
  TROUPE_ASSERT(static_cast<int>(incarnations.size()) == epoch_.num_ranks());
  for (int rank = 0; rank < epoch_.num_ranks(); ++rank)
    epoch_.members.push_back(
        {.rank = rank, .incarnation = incarnations[static_cast<std::size_t>(rank)]});
}

Effects DirectorProtocol::on(const Event& event) {
  if (phase_ == Phase::ended) return {};
  return std::visit([this](const auto& e) { return handle(e); }, event);
}

// --- start

Effects DirectorProtocol::handle(const Started&) {
  Effects effects;
  for (const Member& member : epoch_.members) {
    effects.push_back(SpawnWorker{.rank = member.rank, .incarnation = member.incarnation});
    alive_.insert(member.rank);
  }
  effects.push_back(start_timer(kJoinDeadline));
  return effects;
}

Effects DirectorProtocol::handle(const MemberJoined& event) {
  const int rank = event.member.rank;
  if (phase_ != Phase::gathering || rank < 0 || rank >= epoch_.num_ranks()) return {};
  Member& expected = epoch_.members[static_cast<std::size_t>(rank)];
  if (event.member.incarnation != expected.incarnation) return {};
  expected = event.member;
  joined_.insert(rank);
  if (static_cast<int>(joined_.size()) < epoch_.num_ranks()) return {};
  phase_ = Phase::preparing;
  ++timer_;  // the join deadline is met
  return {StartEpoch{.epoch = epoch_}};
}

Effects DirectorProtocol::handle(const ReplicaReady& event) {
  if (phase_ != Phase::preparing || event.epoch != epoch_.number || !all_answered(event.replica))
    return {};
  if (committed_ == 0 && spec_.checkpoint.initial) return save();
  return go_on();
}

// --- the step transaction

Effects DirectorProtocol::handle(const ReplicaPrepared& event) {
  if (!is_current(event.epoch, event.step, Phase::running)) return {};
  replica_loss_[static_cast<std::size_t>(event.replica)] = event.loss_sum;
  if (event.replica == 0) squared_norm_ = event.squared_norm;
  if (not_finite_.empty()) not_finite_ = event.not_finite;
  if (!all_answered(event.replica)) return {};
  return commit();
}

Effects DirectorProtocol::commit() {
  const std::int64_t step = committed_ + 1;
  double loss_sum = 0;
  for (const double x : replica_loss_) loss_sum += x;
  const double loss = loss_sum / static_cast<double>(spec_.global_tokens());
  const double norm = std::sqrt(squared_norm_);
  if (!not_finite_.empty() || !std::isfinite(loss) || !std::isfinite(norm)) {
    const std::string where =
        not_finite_.empty() ? "the sum over the stages is not finite" : not_finite_;
    return fail(ErrorKind::internal,
                "step " + std::to_string(step) + " was not committed: " + where +
                    "; the weights are those of step " + std::to_string(committed_) +
                    " (a lower lr, a longer warm-up or a smaller clip may help)");
  }
  committed_ = step;
  Effects effects{OrderCommit{.step = step,
                              .clip_factor = stages::clip_factor(spec_.optimizer, norm),
                              .loss = loss,
                              .grad_norm = norm}};
  const Effects next = after_commit();
  effects.insert(effects.end(), next.begin(), next.end());
  return effects;
}

Effects DirectorProtocol::after_commit() {
  const bool last = stop_reason_ || committed_ >= spec_.max_steps;
  const auto interval = spec_.checkpoint.interval;
  if (last || (interval > 0 && committed_ % interval == 0)) return save();
  return evaluate_or_go_on();
}

Effects DirectorProtocol::save() {
  if (saved_ == committed_) return evaluate_or_go_on();
  phase_ = Phase::saving;
  answered_.clear();
  return {OrderSave{.step = committed_}};
}

Effects DirectorProtocol::handle(const ReplicaSaved& event) {
  if (phase_ != Phase::saving || event.epoch != epoch_.number || event.step != committed_)
    return {};
  if (!all_answered(event.replica)) return {};
  phase_ = Phase::publishing;
  return {PublishCheckpoint{.step = committed_}};
}

Effects DirectorProtocol::handle(const Published& event) {
  if (phase_ != Phase::publishing || event.step != committed_) return {};
  saved_ = committed_;
  return evaluate_or_go_on();
}

Effects DirectorProtocol::evaluate_or_go_on() {
  const auto interval = spec_.eval.interval;
  if (stop_reason_ || interval <= 0 || committed_ == 0 || committed_ % interval != 0)
    return go_on();
  phase_ = Phase::evaluating;
  answered_.clear();
  replica_loss_.assign(static_cast<std::size_t>(epoch_.mesh.dp), 0.0);
  return {OrderEvaluate{.step = committed_}};
}

Effects DirectorProtocol::handle(const ReplicaEvaluated& event) {
  if (phase_ != Phase::evaluating || event.epoch != epoch_.number || event.step != committed_)
    return {};
  replica_loss_[static_cast<std::size_t>(event.replica)] = event.loss_sum;
  if (!all_answered(event.replica)) return {};
  double loss_sum = 0;
  for (const double x : replica_loss_) loss_sum += x;
  const double tokens = static_cast<double>(spec_.global_tokens() * spec_.eval.steps);
  Effects effects{ReportEvaluation{.step = committed_, .loss = loss_sum / tokens}};
  const Effects next = go_on();
  effects.insert(effects.end(), next.begin(), next.end());
  return effects;
}

/// The next step, or the end.
Effects DirectorProtocol::go_on() {
  if (stop_reason_) {
    if (saved_ != committed_) return save();
    return finish({.exit_code = 0, .step = committed_, .reason = *stop_reason_});
  }
  if (committed_ >= spec_.max_steps) {
    if (saved_ != committed_) return save();
    return finish({.exit_code = 0, .step = committed_, .reason = "finished"});
  }
  phase_ = Phase::running;
  answered_.clear();
  replica_loss_.assign(static_cast<std::size_t>(epoch_.mesh.dp), 0.0);
  not_finite_.clear();
  return {OrderStep{.step = committed_ + 1}};
}

// --- the end

Effects DirectorProtocol::handle(const WorkerExited& event) {
  if (event.rank < 0 || event.rank >= epoch_.num_ranks()) return {};
  if (event.incarnation != epoch_.members[static_cast<std::size_t>(event.rank)].incarnation)
    return {};
  alive_.erase(event.rank);
  if (phase_ == Phase::ending) {
    if (!alive_.empty()) return {};
    phase_ = Phase::ended;
    return {End{.outcome = *outcome_}};
  }
  return fail(ErrorKind::internal, name_of(event.rank, epoch_) + " ended by " + event.cause);
}

Effects DirectorProtocol::handle(const RankFailed& event) {
  if (phase_ == Phase::ending) return {};
  if (!event.symptom) return fail(event.kind, name_of(event.rank, epoch_) + ": " + event.message);
  if (symptom_) return {};
  symptom_ = event;
  return {start_timer(kSymptomGrace)};
}

Effects DirectorProtocol::handle(const DirectorFailed& event) {
  if (phase_ == Phase::ending) return {};
  return fail(event.kind, event.message);
}

Effects DirectorProtocol::handle(const StopOrdered& event) {
  if (stop_reason_ || phase_ == Phase::ending) return {};
  stop_reason_ = event.reason;
  // Before the first step there is nothing to save but what was loaded; a step in progress is
  // finished first.
  if (phase_ == Phase::gathering || phase_ == Phase::preparing)
    return finish({.exit_code = 0, .step = committed_, .reason = event.reason});
  return {};
}

Effects DirectorProtocol::handle(const StopNowOrdered& event) {
  if (phase_ == Phase::ending) return {KillWorkers{}};
  Effects effects = finish({.exit_code = static_cast<int>(ErrorKind::retry),
                            .step = committed_,
                            .reason = event.reason});
  if (phase_ != Phase::ended) effects.push_back(KillWorkers{});
  return effects;
}

Effects DirectorProtocol::handle(const TimerRang& event) {
  if (event.timer != timer_) return {};
  if (phase_ == Phase::ending) return {KillWorkers{}};
  if (symptom_)
    return fail(symptom_->kind, name_of(symptom_->rank, epoch_) + ": " + symptom_->message);
  if (phase_ == Phase::gathering)
    return fail(ErrorKind::unavailable,
                "waited " + std::to_string(static_cast<int>(kJoinDeadline)) + " s for " +
                    missing_members() + " to join; see its log");
  return {};
}

Effects DirectorProtocol::fail(ErrorKind kind, const std::string& message) {
  // A user's mistake that only a worker could see keeps its code; all else is a failed run.
  const bool users =
      kind == ErrorKind::data || kind == ErrorKind::manifest || kind == ErrorKind::usage;
  const ErrorKind shown = users ? kind : ErrorKind::internal;
  return finish({.exit_code = static_cast<int>(shown), .step = committed_, .reason = message});
}

Effects DirectorProtocol::finish(Outcome outcome) {
  if (alive_.empty()) {
    phase_ = Phase::ended;
    return {End{.outcome = std::move(outcome)}};
  }
  phase_ = Phase::ending;
  outcome_ = std::move(outcome);
  return {OrderFinish{.reason = outcome_->reason}, start_timer(kFinishDeadline)};
}

// --- shared

bool DirectorProtocol::is_current(std::uint32_t epoch, std::int64_t step, Phase phase) const {
  return phase_ == phase && epoch == epoch_.number && step == committed_ + 1;
}

bool DirectorProtocol::all_answered(int replica) {
  answered_.insert(replica);
  return static_cast<int>(answered_.size()) == epoch_.mesh.dp;
}

Effect DirectorProtocol::start_timer(double seconds) {
  return StartTimer{.timer = ++timer_, .seconds = seconds};
}

std::string DirectorProtocol::missing_members() const {
  std::string text;
  for (int rank = 0; rank < epoch_.num_ranks(); ++rank)
    if (!joined_.contains(rank))
      text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank);
  return text;
}

}  // namespace troupe::actors
