#include <algorithm>
#include <utility>

#include "actors/protocol/protocol.h"

// How an order to change the cluster waits for its workers and is answered.

namespace troupe::actors {
namespace {

using Effects = std::vector<Effect>;

/// So many new workers that end before they have a part are the end of an order.
constexpr int kMaxDeaths = 3;

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
    const ClusterShape& current = kept_.number > 0 ? kept_.shape : target_;
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

/// Whoever will take part in the change that is ordered builds its stage while the steps go on, as
/// soon as all of them are there. Nobody connects to a newcomer before it has a part: if it died,
/// half a message of its might stay in the memory of those who train.
Effects DirectorProtocol::warm_up() {
  if (rescaling_ || phase_ == Phase::gathering || phase_ == Phase::preparing) return {};
  if (!pending_) return warm_up_spares();
  const auto assignment = assign_ranks(pending_->shape);
  if (assignment == warming_) return {};
  if (!std::ranges::all_of(assignment, [this](std::uint64_t worker) { return has_joined(worker); }))
    return {};
  warming_ = assignment;
  for (const std::uint64_t worker : assignment) workers_.at(worker).warm = false;
  return {
      OrderWarmUp{.order = pending_->order, .shape = pending_->shape, .assignment = assignment}};
}

/// Without an order spares do not know whose place they will take: they prepare for any.
Effects DirectorProtocol::warm_up_spares() {
  Effects effects;
  for (auto& [incarnation, worker] : workers_) {
    if (!worker.joined || worker.leaving || kept_.rank_of(incarnation) >= 0 ||
        std::exchange(worker.warms_up, true))
      continue;
    effects.push_back(WarmUpSpare{.incarnation = incarnation, .shape = kept_.shape});
  }
  return effects;
}

void DirectorProtocol::cool_down() {
  warming_.clear();
  for (auto& [incarnation, worker] : workers_) worker.warms_up = false;
}

Effects DirectorProtocol::handle(const MemberWarm& event) {
  const auto found = workers_.find(event.incarnation);
  if (pending_ && pending_->order == event.order && found != workers_.end() && event.rank >= 0 &&
      event.rank < static_cast<int>(warming_.size()) &&
      warming_[static_cast<std::size_t>(event.rank)] == event.incarnation)
    found->second.warm = true;
  return {};
}

/// The order's workers have joined and are warm. Nobody who trains has waited for them.
bool DirectorProtocol::can_scale() const {
  return pending_ && !rescaling_ && !warming_.empty() &&
         warming_ == assign_ranks(pending_->shape) &&
         std::ranges::all_of(warming_,
                             [this](std::uint64_t worker) { return workers_.at(worker).warm; });
}

/// Whether the ordered change, and nothing else, waits for it: the last epoch that all ranks
/// reached has no part for it, and can go on as it is.
bool DirectorProtocol::is_newcomer(std::uint64_t incarnation) const {
  if (kept_.number == 0 || !pending_ || kept_.rank_of(incarnation) >= 0) return false;
  if (phase_ != Phase::gathering && phase_ != Phase::preparing) return !rescaling_;
  const bool takes_part =
      (phase_ == Phase::preparing && epoch_.rank_of(incarnation) >= 0) ||
      std::ranges::find(rank_assignment_, incarnation) != rank_assignment_.end();
  return rescaling_ && kept_.shape != pending_->shape && takes_part;
}

/// Nothing is lost with it: the change is tried again with another one, some times. `has_begun`: it
/// may have connected to the others.
Effects DirectorProtocol::lose_newcomer(const std::string& cause, bool has_begun) {
  const bool changing = std::exchange(rescaling_, false);
  Effects effects;
  if (++pending_->deaths >= kMaxDeaths) {
    effects = answer_scale(ErrorKind::unavailable,
                           std::to_string(kMaxDeaths) +
                               " new workers ended before they had a part, and the run goes on "
                               "without the change; the last: " +
                               cause + "; see the logs of the run");
    cool_down();
    spares_due_ = true;  // for whom the order has spawned, and who has no use any more
  }
  if (changing) {
    target_ = kept_.shape;
    keep_replicas();
    append(effects, gather(cause, has_begun));
  } else if (pending_) {
    append(effects, spawn_missing(pending_->shape));
    append(effects, warm_up());
  }
  return effects;
}

Effects DirectorProtocol::answer_scale(ErrorKind kind, const std::string& refused) {
  rescaling_ = false;
  if (!pending_) return {};
  const std::uint64_t order = pending_->order;
  pending_.reset();
  return {AnswerScale{.order = order, .kind = kind, .refused = refused}};
}

}  // namespace troupe::actors
