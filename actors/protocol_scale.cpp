#include <algorithm>
#include <utility>

#include "actors/protocol.h"

// How an order to change the cluster waits for its workers and is answered.

namespace troupe::actors {
namespace {

using Effects = std::vector<Effect>;

void append(Effects& effects, const Effects& more) {
  effects.insert(effects.end(), more.begin(), more.end());
}

}  // namespace

Effects DirectorProtocol::handle(const ScaleOrdered& event) {
  const auto refuse = [&](ErrorKind kind, const std::string& text) {
    return Effects{AnswerScale{.order = event.order, .kind = kind, .refused = text}};
  };
  if (phase_ == Phase::ending || stop_reason_)
    return refuse(ErrorKind::unavailable,
                  "the run is ending at step " + std::to_string(committed_));
  if (pending_)
    return refuse(ErrorKind::retry, "another change is under way: " + to_string(pending_->request));
  try {
    const Shape& current = kept_.number > 0 ? kept_.shape : target_;
    pending_ = {.order = event.order,
                .request = event.request,
                .shape = scaled(spec_, current, event.request)};
  } catch (const Error& error) {
    return refuse(error.kind(), error.what());
  }
  if (phase_ == Phase::gathering || phase_ == Phase::preparing) return {};  // settle() sees to it
  cool_down();
  Effects effects = spawn_missing(pending_->shape);
  append(effects, warm_up());
  return effects;
}

/// Whoever will take part in the change that is ordered builds its stage while the steps go on.
/// Without an order spares build one, for they do not know which they will need: its products,
/// which all stages share, are prepared then.
Effects DirectorProtocol::warm_up() {
  if (rescaling_ || phase_ == Phase::gathering || phase_ == Phase::preparing) return {};
  Effects effects;
  if (!pending_) {
    for (auto& [incarnation, worker] : workers_) {
      if (!worker.joined || worker.leaving || worker.warms_up_for >= 0 ||
          kept_.rank_of(incarnation) >= 0)
        continue;
      worker.warms_up_for = kept_.num_ranks() - 1;
      effects.push_back(OrderWarmUp{.order = 0,
                                    .incarnation = incarnation,
                                    .rank = worker.warms_up_for,
                                    .shape = kept_.shape});
    }
    return effects;
  }
  const auto seats = seats_in(pending_->shape);
  for (std::size_t i = 0; i < seats.size(); ++i) {
    const auto found = workers_.find(seats[i]);
    const int rank = static_cast<int>(i);
    if (found == workers_.end() || !found->second.joined || found->second.warms_up_for == rank)
      continue;
    found->second.warms_up_for = rank;
    found->second.warm = false;
    effects.push_back(OrderWarmUp{.order = pending_->order,
                                  .incarnation = found->first,
                                  .rank = rank,
                                  .shape = pending_->shape});
  }
  return effects;
}

void DirectorProtocol::cool_down() {
  for (auto& [incarnation, worker] : workers_) {
    worker.warms_up_for = -1;
    worker.warm = false;
  }
}

Effects DirectorProtocol::handle(const MemberWarm& event) {
  const auto found = workers_.find(event.incarnation);
  if (pending_ && pending_->order == event.order && found != workers_.end() &&
      found->second.warms_up_for == event.rank)
    found->second.warm = true;
  return {};
}

/// The order's workers have joined and are warm. Nobody who trains has waited for them.
bool DirectorProtocol::can_scale() const {
  if (!pending_ || rescaling_) return false;
  const auto seats = seats_in(pending_->shape);
  for (std::size_t rank = 0; rank < seats.size(); ++rank) {
    const auto found = workers_.find(seats[rank]);
    if (found == workers_.end() || !found->second.warm ||
        found->second.warms_up_for != static_cast<int>(rank))
      return false;
  }
  return true;
}

Effects DirectorProtocol::answer_scale(ErrorKind kind, const std::string& refused) {
  rescaling_ = false;
  if (!pending_) return {};
  const std::uint64_t order = pending_->order;
  pending_.reset();
  return {AnswerScale{.order = order, .kind = kind, .refused = refused}};
}

}  // namespace troupe::actors
