#include <algorithm>
#include <utility>

#include "actors/protocol/protocol.h"
#include "actors/topology/validation.h"
#include "stages/decoder/stage/optimizer.h"

// The step transaction: a step is run, voted on, committed, saved and evaluated.

namespace troupe::actors {

/// Goes on with the next step, with a change that is ready, or with the end.
void DirectorProtocol::go_on() {
  if (is_over()) return finish_in_order();
  if (!can_scale()) return order_step();
  scale_->is_under_way = true;
  gathering_.aim_at(scale_->target);
  gather(to_string(scale_->request), false);
}

void DirectorProtocol::order_step() {
  emit(OrderStep{.step = committed_ + 1});
  await_votes();
}

void DirectorProtocol::handle(const ReplicaPrepared& event) {
  if (phase_ != Phase::running || event.configuration != configuration_.number ||
      event.step != committed_ + 1)
    return;
  votes_.add(event);
  if (votes_.complete()) commit();
}

void DirectorProtocol::commit() {
  const std::int64_t step = committed_ + 1;
  const std::int64_t targets = votes_.targets() > 0 ? votes_.targets() : spec_.global_tokens();
  if (const std::string where = votes_.not_finite(targets); !where.empty()) {
    end_.refuse_step("step " + std::to_string(step) + " was not committed: " + where);
    reached_ = committed_;  // no later step is done again
    // Ranks that have made the update take it back when they halt.
    return ahead_.is_ordered() ? gather(*end_.refused_step(), false) : go_on();
  }
  committed_ = step;
  reached_ = std::max(reached_, step);
  failures_.committed(gathering_.number());
  const double norm = votes_.grad_norm();
  const double factor = stages::clip_factor(spec_.optimizer, norm);
  ahead_.committed(factor == kFactorAhead);
  emit(OrderCommit{.step = step,
                   .clip_factor = factor,
                   .loss = votes_.loss(targets),
                   .targets = targets,
                   .grad_norm = norm});
  if (is_scaling()) answer_scale(ErrorKind::usage, "");
  if (std::exchange(spares_due_, false) && !is_over()) keep_spares();
  change_by_itself();
  after_commit();
}

void DirectorProtocol::after_commit() {
  if (ahead_.is_ordered())
    return await_votes();  // what was ordered meanwhile comes after that step
  if (save_ && !save_->step) save_->step = committed_;
  const bool ordered = save_ && save_->step == committed_;
  if (is_over() || ordered || is_save_due(committed_)) return save();
  evaluate_or_go_on();
}

/// Whether the state of a step is saved because of its number.
bool DirectorProtocol::is_save_due(std::int64_t step) const {
  return spec_.checkpoint.interval > 0 && step % spec_.checkpoint.interval == 0;
}

/// Whether the last step is committed. A stop waits for steps that were committed before a failure
/// and are done again; a run that has failed does no more.
bool DirectorProtocol::is_over() const {
  return committed_ >= spec_.max_steps || end_.failure() || (stopping() && committed_ >= reached_);
}

// --- checkpoints

void DirectorProtocol::handle(const SaveOrdered& event) {
  const auto refuse = [&](ErrorKind kind, const std::string& text) {
    emit(AnswerSave{.order = event.order, .kind = kind, .refused = text});
  };
  if (phase_ == Phase::ending || end_.stop_reason())
    return refuse(ErrorKind::unavailable,
                  "the run is ending at step " + std::to_string(committed_));
  if (writing())  // a second one would keep the steps waiting for the first
    return refuse(ErrorKind::retry,
                  "the checkpoint of step " + std::to_string(*writing()) + " is being written");
  if (save_)
    return refuse(ErrorKind::retry, "a checkpoint of the next step has been ordered already");
  save_ = {.id = event.order, .step = {}};
}

/// Answers an order whose checkpoint is complete, or could not be written and is not tried again.
void DirectorProtocol::answer_saved() {
  if (!save_ || !save_->step || !checkpoint_.settled(*save_->step) || saves_again()) return;
  if (saved() >= *save_->step) return answer_save(ErrorKind::usage, "");
  answer_save(ErrorKind::internal, "step " + std::to_string(*save_->step) +
                                       " could not be saved: " + checkpoint_.error());
}

void DirectorProtocol::answer_save(ErrorKind kind, const std::string& refused) {
  if (!save_) return;
  emit(AnswerSave{.order = save_->id, .step = saved(), .kind = kind, .refused = refused});
  save_.reset();
}

/// Saves the last committed step. Workers write while the next step computes; only the run's end,
/// and the next checkpoint, wait until this one is published.
void DirectorProtocol::save() {
  if (saves_again()) return wait_to_save_again();
  if (checkpoint_.settled(committed_)) {
    answer_saved();
    return evaluate_or_go_on();
  }
  if (checkpoint_.writing()) {
    phase_ = Phase::saving;
    return;
  }
  write_checkpoint();
}

void DirectorProtocol::write_checkpoint() {
  checkpoint_.begin(committed_, configuration_.shape.mesh.dp);
  emit(OrderSave{.step = committed_});
  if (is_over())
    phase_ = Phase::saving;
  else
    evaluate_or_go_on();
}

void DirectorProtocol::handle(const ReplicaSaved& event) {
  if (event.configuration == configuration_.number && checkpoint_.add(event))
    emit(PublishCheckpoint{.step = event.step, .error = checkpoint_.error()});
}

void DirectorProtocol::handle(const Published& event) {
  if (!checkpoint_.finish(event)) return;
  if (phase_ == Phase::ending) {
    tell_if_unsaved(event);
    return end_if_alone();
  }
  if (!event.error.empty())  // training goes on; the next checkpoint may succeed
    emit(ReportUnsaved{.step = event.step, .error = told_with_retry(event.error)});
  answer_saved();
  if (phase_ == Phase::saving) save();
  if (phase_ == Phase::gathering) begin_if_complete();
}

// --- evaluation

/// A step that is computed again is not evaluated again.
bool DirectorProtocol::is_evaluation_due(std::int64_t step) const {
  return spec_.eval.interval > 0 && step > evaluated_ && step % spec_.eval.interval == 0;
}

void DirectorProtocol::evaluate_or_go_on() {
  if (stopping() || !is_evaluation_due(committed_)) return go_on();
  phase_ = Phase::evaluating;
  std::vector<std::int64_t> batches;
  for (const RunSpec::Eval::Set& set : spec_.eval.sets)
    batches.push_back(spec_.eval.batches_of(set, spec_.batch.global));
  evaluation_.begin(batches, configuration_.shape.mesh.dp);
  order_batches();
}

void DirectorProtocol::order_batches() {
  while (const auto batch = evaluation_.order())
    emit(Evaluate{.configuration = configuration_.number, .step = committed_, .batch = *batch});
}

void DirectorProtocol::handle(const ReplicaEvaluated& event) {
  if (phase_ != Phase::evaluating || event.configuration != configuration_.number ||
      event.step != committed_)
    return;
  // Joined samples have no targets counted: all have equally many.
  const std::int64_t joined =
      spec_.eval.batch(event.batch, spec_.batch.global).samples * spec_.batch.seq_len;
  evaluation_.add(event.batch, event.replica,
                  {.sum = event.loss_sum, .targets = event.targets > 0 ? event.targets : joined});
  if (stopping()) {  // no more batches are ordered
    if (evaluation_.idle()) go_on();
    return;
  }
  if (!evaluation_.complete()) return order_batches();
  evaluated_ = committed_;
  emit(ReportEvaluation{.step = committed_, .losses = evaluation_.mean_losses()});
  go_on();
}

}  // namespace troupe::actors
