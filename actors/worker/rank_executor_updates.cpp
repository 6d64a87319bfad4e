#include <spdlog/spdlog.h>

#include "actors/topology/validation.h"
#include "actors/worker/ahead_gate.h"
#include "stages/decoder/stage/optimizer.h"
#include "tensor/errors/error.h"

// When a rank's weights are updated: once its step is committed, or ahead of that, and then again
// if the step is committed with another factor (RunSpec::Validation).

namespace troupe::actors {

void RankExecutor::commit(const Commit& order) {
  finish_writing();
  voted_.reset();
  update(order.step, order.clip_factor);
  set_state("ready");
}

void RankExecutor::update(std::int64_t step, double factor) {
  set_state("applying");
  is_updating_ = true;
  configuration_->data_parallel->apply(stages::adamw_step(spec_.optimizer, step, factor));
  is_updating_ = false;
  // The update is made, whatever becomes of the gather.
  configuration_->state->step = step;
  configuration_->data_parallel->share_weights();
}

/// Makes the update of the step that this rank has voted on, if the one after it is ordered and no
/// commit has come yet.
void RankExecutor::update_ahead(const RunStep& order) {
  if (voted_ != order.step - 1) return;
  finish_writing();
  voted_.reset();
  update(order.step - 1, kFactorAhead);
  ahead_ = {.step = order.step - 1, .factor = {}};
}

void RankExecutor::learn(const Commit& order) {
  if (ahead_ && ahead_->step == order.step) ahead_->factor = order.clip_factor;
}

/// Waits until the step is committed whose update was made ahead. Whether that update stands.
bool RankExecutor::update_stands(StepOrders& orders) {
  if (!ahead_) return true;
  if (!ahead_->factor) {
    set_state("validating");
    const std::optional<Commit> commit = orders.await_commit();
    if (!commit)
      throw Error(ErrorKind::unavailable,
                  "step " + std::to_string(ahead_->step) + " was not committed");
    learn(*commit);
    set_state("running");
  }
  TROUPE_ASSERT(ahead_->factor);
  if (*ahead_->factor != kFactorAhead) return false;
  ahead_.reset();
  return true;
}

/// Makes the update again with the factor that the step was committed with. All ranks do, after the
/// same actions of the next step.
void RankExecutor::update_again() {
  const UpdateAhead taken_back = *std::exchange(ahead_, std::nullopt);
  spdlog::info("makes the update of step {} again, with factor {}", taken_back.step,
               *taken_back.factor);
  configuration_->data_parallel->expect(kReadsNothing);  // weights that travel stay as they are
  configuration_->stage().step_back();
  update(taken_back.step, *taken_back.factor);
}

/// Puts the state right when a configuration ends before it was known whether the update stands.
/// Replicas and shards are not needed for that.
void RankExecutor::settle_update() {
  voted_.reset();
  if (!ahead_) return;
  const UpdateAhead made = *std::exchange(ahead_, std::nullopt);
  if (made.factor == kFactorAhead) return;
  StageState& state = *configuration_->state;
  state.stage->step_back();
  state.step = made.step - 1;
  if (!made.factor) return;
  is_updating_ = true;
  state.stage->apply(stages::adamw_step(spec_.optimizer, made.step, *made.factor));
  is_updating_ = false;
  state.step = made.step;
}

bool RankExecutor::AheadGate::weights_stand() {
  if (!executor_.update_stands(orders_)) return false;
  RankConfiguration& now = *executor_.configuration_;
  const std::int64_t committed = order_.step - 1;
  if (now.copies && now.copies->must_send(committed)) now.copies->send(now.stage(), committed);
  return true;
}

void RankExecutor::AheadGate::after_action() {
  RankConfiguration& now = *executor_.configuration_;
  if (has_told_ || (now.copies && !now.copies->is_here(order_.step - 1))) return;
  finish();
}

void RankExecutor::AheadGate::finish() {
  RankConfiguration& now = *executor_.configuration_;
  const std::int64_t committed = order_.step - 1;
  // No rank goes on before the last state is safe.
  if (now.copies && now.copies->must_receive(committed)) now.copies->receive(committed);
  if (std::exchange(has_told_, true) || !tells_of_copies(executor_.spec_, now.configuration.shape))
    return;
  orders_.tell({.configuration = order_.configuration, .step = committed, .rank = now.rank});
}

}  // namespace troupe::actors
