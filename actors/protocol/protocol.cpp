#include "actors/protocol/protocol.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "stages/optimizer.h"

namespace troupe::actors {
namespace {

using Effects = std::vector<Effect>;

// Deadlines of what nobody else bounds, in seconds.
constexpr double kSymptomGrace = 0.5;  // for the exit of a dead peer to arrive after its symptom
constexpr double kFinishDeadline = 5;  // for workers to end by themselves before they are killed

/// Batches of an evaluation that are ordered at once: one more than is computed, so that the
/// pipeline stays full, and no more, because who stops a run waits for them.
constexpr std::int64_t kBatchesAtOnce = 2;

void append(Effects& effects, const Effects& more) {
  effects.insert(effects.end(), more.begin(), more.end());
}

}  // namespace

DirectorProtocol::DirectorProtocol(RunSpec spec, const Start& start)
    : spec_(std::move(spec)),
      first_step_(start.first_step),
      seed_(start.seed),
      target_(first_shape(spec_)),
      committed_(start.first_step),
      saved_(start.saved_step) {
  keep_replicas();
}

Effects DirectorProtocol::on(const Event& event) {
  if (phase_ == Phase::ended) return {};
  return std::visit(
      [this](const auto& e) {
        const std::string why = fault_in(e);
        return why.empty() ? handle(e) : Effects{ReportRefused{.sender = sender_of(e), .why = why}};
      },
      event);
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
    refused_step_ = "step " + std::to_string(step) + " was not committed: " + where;
    reached_ = committed_;  // nothing beyond it is done again
    return go_on();
  }
  committed_ = step;
  reached_ = std::max(reached_, step);
  Effects effects{OrderCommit{.step = step,
                              .clip_factor = stages::clip_factor(spec_.optimizer, norm),
                              .loss = loss,
                              .grad_norm = norm}};
  if (rescaling_) append(effects, answer_scale(ErrorKind::usage, ""));
  if (std::exchange(spares_due_, false) && !is_over()) append(effects, keep_spares());
  append(effects, after_commit());
  return effects;
}

Effects DirectorProtocol::after_commit() {
  const auto interval = spec_.checkpoint.interval;
  if (is_over() || (interval > 0 && committed_ % interval == 0)) return save();
  return evaluate_or_go_on();
}

/// Workers write while the next step computes; only the run's end, and a checkpoint that is due
/// while the one before is still being written, wait for it.
Effects DirectorProtocol::save() {
  if (saved_ >= committed_ || not_saved_ == committed_) return evaluate_or_go_on();
  if (writing_) {
    phase_ = Phase::saving;
    return {};
  }
  writing_ = committed_;
  written_by_.clear();
  save_error_.clear();
  Effects effects{OrderSave{.step = committed_}};
  if (is_over())
    phase_ = Phase::saving;
  else
    append(effects, evaluate_or_go_on());
  return effects;
}

Effects DirectorProtocol::handle(const ReplicaSaved& event) {
  if (event.epoch != epoch_.number || writing_ != event.step) return {};
  if (save_error_.empty()) save_error_ = event.error;
  written_by_.insert(event.replica);
  if (static_cast<int>(written_by_.size()) < epoch_.shape.mesh.dp) return {};
  publishing_ = true;
  return {PublishCheckpoint{.step = event.step, .error = save_error_}};
}

Effects DirectorProtocol::handle(const Published& event) {
  // A published one counts, whatever has become of its epoch.
  if (event.error.empty()) saved_ = std::max(saved_, event.step);
  if (writing_ != event.step) return {};
  writing_.reset();
  publishing_ = false;
  if (phase_ == Phase::ending) return end_if_alone();
  Effects effects;
  if (!event.error.empty()) {  // it costs no training; the next one may succeed
    not_saved_ = event.step;
    save_error_ = event.error;
    effects.push_back(ReportUnsaved{.step = event.step, .error = event.error});
  }
  if (phase_ == Phase::saving) append(effects, save());
  if (phase_ == Phase::gathering) append(effects, begin_if_complete());
  return effects;
}

Effects DirectorProtocol::evaluate_or_go_on() {
  const auto interval = spec_.eval.interval;
  if (stopping() || interval <= 0 || committed_ == 0 || committed_ % interval != 0) return go_on();
  phase_ = Phase::evaluating;
  evaluated_ = batches_ordered_ = 0;
  batch_losses_.clear();
  replica_loss_.assign(static_cast<std::size_t>(epoch_.shape.mesh.dp), 0.0);
  return order_batches();
}

Effects DirectorProtocol::order_batches() {
  Effects effects;
  const std::int64_t end = std::min(spec_.eval.steps, evaluated_ + kBatchesAtOnce);
  for (; batches_ordered_ < end; ++batches_ordered_)
    effects.push_back(OrderEvaluate{.step = committed_, .batch = batches_ordered_});
  return effects;
}

Effects DirectorProtocol::handle(const ReplicaEvaluated& event) {
  if (phase_ != Phase::evaluating || event.epoch != epoch_.number || event.step != committed_)
    return {};
  if (event.batch < evaluated_) return {};
  batch_losses_[{event.batch, event.replica}] = event.loss_sum;
  // In the order of the batches, whoever answers first.
  const auto is_complete = [&] {
    const auto begin = batch_losses_.lower_bound({evaluated_, 0});
    const auto end = batch_losses_.lower_bound({evaluated_ + 1, 0});
    return std::distance(begin, end) == epoch_.shape.mesh.dp;
  };
  for (; is_complete(); ++evaluated_)
    for (std::size_t r = 0; r < replica_loss_.size(); ++r)
      replica_loss_[r] += batch_losses_.extract({evaluated_, static_cast<int>(r)}).mapped();
  if (stopping() && evaluated_ == batches_ordered_) return go_on();  // what is left is not ordered
  if (stopping()) return {};
  if (evaluated_ < spec_.eval.steps) return order_batches();
  double loss_sum = 0;
  for (const double x : replica_loss_) loss_sum += x;
  const double tokens = static_cast<double>(spec_.global_tokens() * spec_.eval.steps);
  Effects effects{ReportEvaluation{.step = committed_, .loss = loss_sum / tokens}};
  append(effects, go_on());
  return effects;
}

/// The next step, or the end.
Effects DirectorProtocol::go_on() {
  if (is_over()) {
    const bool is_new = !refused_step_ || writing_ || committed_ > first_step_;
    if (is_new && saved_ < committed_ && not_saved_ != committed_) return save();
    const std::string reason = stop_reason_.value_or("finished");
    if (not_saved_ == committed_)
      return finish({.exit_code = static_cast<int>(ErrorKind::internal),
                     .step = committed_,
                     .reason = reason + ", but the last step could not be saved"});
    return finish({.exit_code = stop_code_, .step = committed_, .reason = reason});
  }
  if (can_scale()) {
    rescaling_ = true;
    target_ = pending_->shape;
    return gather(to_string(pending_->request), false);
  }
  phase_ = Phase::running;
  answered_.clear();
  replica_loss_.assign(static_cast<std::size_t>(epoch_.shape.mesh.dp), 0.0);
  not_finite_.clear();
  return {OrderStep{.step = committed_ + 1}};
}

// --- the end

Effects DirectorProtocol::handle(const WorkerExited& event) {
  const auto found = workers_.find(event.incarnation);
  if (found == workers_.end()) return {};
  if (phase_ == Phase::ending || found->second.leaving) {
    forget(event.incarnation);
    return phase_ == Phase::ending ? end_if_alone() : Effects{};
  }
  if (kept_.number == 0 && !event.by_signal) {
    // Nothing has run yet and the worker gave up by itself: so would the next one.
    const std::string who = name_of_worker(event.incarnation);
    forget(event.incarnation);
    return fail(ErrorKind::internal, who + " ended by " + event.cause + "; see its log");
  }
  return lose(event.incarnation, event.cause, event.now_s);
}

Effects DirectorProtocol::handle(const WorkerFailed& event) {
  if (phase_ == Phase::ending || !workers_.contains(event.incarnation)) return {};
  if (event.epoch != 0 && (event.epoch != epoch_.number || phase_ == Phase::gathering)) return {};
  if (event.symptom) {
    if (symptom_ || phase_ == Phase::gathering) return {};
    symptom_ = event;
    return {start_timer(kSymptomGrace)};
  }
  const bool users = event.kind == ErrorKind::data || event.kind == ErrorKind::manifest ||
                     event.kind == ErrorKind::usage;
  const bool again = event.epoch != 0 && failure_ && failure_->message == event.message;
  if ((users || again) && !is_newcomer(event.incarnation))
    return fail(event.kind, name_of_worker(event.incarnation) + ": " + event.message);
  if (event.epoch != 0 && !is_newcomer(event.incarnation)) failure_ = event;
  Effects effects{KillWorker{.incarnation = event.incarnation}};
  append(effects, lose(event.incarnation, event.message, event.now_s));
  return effects;
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
  if (kept_.number == 0)
    return finish({.exit_code = 0, .step = committed_, .reason = event.reason});
  // While a step is being saved that one is the last: the next would have to be saved after it.
  if (phase_ == Phase::running && writing_ == committed_ && is_over()) phase_ = Phase::saving;
  return {};
}

Effects DirectorProtocol::handle(const StopNowOrdered& event) {
  if (phase_ == Phase::ending) return {AbandonCheckpoint{}, KillWorkers{}};
  Effects effects = finish({.exit_code = static_cast<int>(ErrorKind::retry),
                            .step = committed_,
                            .reason = event.reason});
  if (publishing_) effects.push_back(AbandonCheckpoint{});
  if (phase_ != Phase::ended) effects.push_back(KillWorkers{});
  return effects;
}

Effects DirectorProtocol::handle(const TimerRang& event) {
  if (event.timer != timer_) return {};
  if (phase_ == Phase::ending) return {KillWorkers{}};
  if (phase_ == Phase::gathering) return gathering_is_late(event.now_s);
  if (!symptom_) return {};
  // Nobody died of it: the same workers connect anew.
  const std::string cause = name_of_worker(symptom_->incarnation) + ": " + symptom_->message;
  Effects effects{
      ReportWorkerLost{.rank = epoch_.rank_of(symptom_->incarnation),
                       .cause = cause,
                       .has_part = true,
                       .ends_run = spec_.recovery.on_failure == RunSpec::OnFailure::stop}};
  append(effects, regroup(cause, event.now_s));
  return effects;
}

Effects DirectorProtocol::fail(ErrorKind kind, const std::string& message) {
  // A user's mistake that only a worker could see keeps its code; all else is a failed run.
  const bool users =
      kind == ErrorKind::data || kind == ErrorKind::manifest || kind == ErrorKind::usage;
  const ErrorKind shown = users ? kind : ErrorKind::internal;
  return finish({.exit_code = static_cast<int>(shown), .step = committed_, .reason = message});
}

/// A refused step is the first cause of the end, whatever came after it.
Outcome DirectorProtocol::outcome_of_refused_step(const std::string& end) const {
  const std::int64_t last = std::max(reached_, first_step_);
  std::string state;
  if (saved_ >= last)
    state =
        "the state of step " + std::to_string(saved_) + " is in " + checkpoint_path(spec_, saved_);
  else if (last == first_step_)
    state = "no step was committed before it, so that there is nothing to save";
  else
    state = "the state of step " + std::to_string(last) +
            " could not be saved: " + (not_saved_ == last ? save_error_ : end);
  return {.exit_code = static_cast<int>(ErrorKind::internal),
          .step = committed_,
          .reason = *refused_step_ + "; " + state +
                    " (a lower lr, a longer warm-up or a smaller clip may help)"};
}

Effects DirectorProtocol::finish(Outcome outcome) {
  if (refused_step_) outcome = outcome_of_refused_step(outcome.reason);
  Effects effects =
      answer_scale(ErrorKind::unavailable,
                   "the run ended at step " + std::to_string(committed_) + ": " + outcome.reason);
  phase_ = Phase::ending;
  outcome_ = std::move(outcome);
  if (workers_.empty()) {
    append(effects, end_if_alone());
    return effects;
  }
  effects.push_back(OrderFinish{.reason = outcome_->reason});
  effects.push_back(start_timer(kFinishDeadline));
  return effects;
}

/// All workers have ended, and the last checkpoint is where it belongs.
Effects DirectorProtocol::end_if_alone() {
  if (!workers_.empty() || publishing_) return {};
  phase_ = Phase::ended;
  return {End{.outcome = *outcome_}};
}

// --- shared

/// A stop waits for steps that were committed before a loss and are done again.
bool DirectorProtocol::is_over() const {
  return committed_ >= spec_.max_steps || (stopping() && committed_ >= reached_);
}

bool DirectorProtocol::is_current(std::uint32_t epoch, std::int64_t step, Phase phase) const {
  return phase_ == phase && epoch == epoch_.number && step == committed_ + 1;
}

bool DirectorProtocol::all_answered(int replica) {
  answered_.insert(replica);
  return static_cast<int>(answered_.size()) == epoch_.shape.mesh.dp;
}

Effect DirectorProtocol::start_timer(double seconds) {
  return StartTimer{.timer = ++timer_, .seconds = seconds};
}

}  // namespace troupe::actors
