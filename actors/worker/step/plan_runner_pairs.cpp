#include <chrono>
#include <utility>

#include "actors/worker/step/active_action.h"

// Pairs of actions, which a rank runs in turn.

namespace troupe::actors {

/// Runs the nodes of two actions in turn. Each action starts when its message and buffer are there,
/// and goes on when the collectives are done whose results its next node reads, so that one
/// computes while messages and collectives of the other are under way. Brief nodes take no turn:
/// those after a product start the collectives that the other's next product hides.
///
/// Which action goes on depends on when messages arrive, and differs between the shards of a stage.
/// So nothing here may block in a collective of one action while the other could go on: another
/// shard may be doing the reverse. In program order both have their messages and buffers before
/// either begins, as the deadlock check of plans has it, and then nothing waits.
void PlanRunner::run_pair(ActiveAction forward, ActiveAction backward, Step& step) {
  ActiveAction* turn = &forward;
  ActiveAction* other = &backward;
  forward.is_paired = backward.is_paired = true;
  for (ActiveAction* pass : {turn, other})
    if (step.watch.in_program_order) start(*pass, step);
  for (;;) {
    for (ActiveAction* pass : {turn, other}) {
      if (!pass->started && channel_.ready(pass->needs)) start(*pass, step);
      while (can_advance(*pass) && pass->is_brief()) advance(*pass, step);
    }
    if (forward.done() && backward.done()) break;
    if (can_advance(*turn)) {
      advance(*turn, step);
      std::swap(turn, other);
    } else if (can_advance(*other)) {
      advance(*other, step);
    } else {
      wait_for_pair(forward, backward, step);
    }
  }
}

/// The collective that the action's next node waits for; null if there is none.
const tensor::Work* PlanRunner::awaited(const ActiveAction& pass) const {
  return stage_.awaited(pass_of(pass.next.op), pass.next.chunk, pass.next.slot, pass.node);
}

bool PlanRunner::can_advance(const ActiveAction& pass) const {
  return pass.started && !pass.done() && !awaited(pass);
}

/// Waits until an action can start or go on. Neither of the two can now, and at least one is not
/// done.
void PlanRunner::wait_for_pair(ActiveAction& forward, ActiveAction& backward, Step& step) {
  if (forward.done() || backward.done()) {
    ActiveAction& last = forward.done() ? backward : forward;
    return last.started ? advance(last, step) : start(last, step);
  }
  const auto needs_of = [this](const ActiveAction& pass) {
    return pass.started ? transport::Needs{.collective = awaited(pass)} : pass.needs;
  };
  const transport::Needs needs = needs_of(forward);
  const auto begin = std::chrono::steady_clock::now();
  channel_.wait_for_either(needs, needs_of(backward));
  const double s = seconds_since(begin);
  ActiveAction& first = channel_.ready(needs) ? forward : backward;
  step.record = first.record;
  if (!first.started) return add_wait(first.next, first.direction, s, step);
  step.collective_s += s;
  if (step.record) step.record->collective_s += s;
}

}  // namespace troupe::actors
