#include "actors/protocol/protocol.h"
#include "actors/topology/validation.h"

// Steps that are ordered before the one before them is committed.

namespace troupe::actors {

/// The step after the last committed one is under way.
void DirectorProtocol::await_votes() {
  phase_ = Phase::running;
  votes_.begin(configuration_.shape.mesh.dp);
  ahead_.begin(configuration_.shape.mesh.dp, !tells_of_copies(spec_, configuration_.shape));
  order_ahead();
}

void DirectorProtocol::handle(const ReplicaCopied& event) {
  if (phase_ != Phase::running || event.configuration != configuration_.number ||
      event.step != committed_)
    return;
  ahead_.copied(event.replica);
  order_ahead();
}

/// Orders the step after the one under way too, unless something is known to come between them.
/// What is ordered later comes after it.
void DirectorProtocol::order_ahead() {
  const std::int64_t step = committed_ + 1;
  if (!updates_ahead(spec_, configuration_.shape) || !ahead_.may_be_ordered()) return;
  const bool is_save_ordered = save_ && !save_->step;
  if (step >= spec_.max_steps || stopping() || is_save_ordered || can_scale() ||
      is_save_due(step) || is_evaluation_due(step))
    return;
  ahead_.order();
  emit(OrderStep{.step = step + 1});
}

}  // namespace troupe::actors
