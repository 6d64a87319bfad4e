#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/protocol/protocol.h"

// How an order to change the cluster waits for its workers and is answered.

namespace troupe::actors {
namespace {

/// So many new workers that end before they have a part are the end of an order.
constexpr int kMaxDeaths = 3;

}  // namespace

void DirectorProtocol::handle(const ScaleOrdered& event) {
  const auto refuse = [&](ErrorKind kind, const std::string& text) {
    emit(AnswerScale{.order = event.order, .kind = kind, .refused = text});
  };
  if (phase_ == Phase::ending || end_.stop_reason())
    return refuse(ErrorKind::unavailable,
                  "the run is ending at step " + std::to_string(committed_));
  if (scale_)
    return refuse(ErrorKind::retry, "another change is under way: " + to_string(scale_->request));
  try {
    const ClusterShape& current = kept_.number > 0 ? kept_.shape : gathering_.target().shape;
    scale_ = {.id = event.order,
              .request = event.request,
              .shape = scaled(spec_, current, event.request)};
  } catch (const Error& error) {
    return refuse(error.kind(), error.what());
  }
  if (is_between_epochs()) return;  // settle() sees to it
  cool_down();
  spawn_missing({.shape = scale_->shape});
  warm_up();
}

/// Whoever will take part in the change that is ordered builds its stage while the steps go on, as
/// soon as all of them are there. Nobody connects to a newcomer before it has a part: if it died,
/// half a message of its might stay in the memory of those that train.
void DirectorProtocol::warm_up() {
  if (is_scaling() || is_between_epochs()) return;
  if (!scale_) return warm_up_spares();
  RankAssignment assignment = assign_ranks({.shape = scale_->shape}, kept_, roster_);
  const auto has_joined = [this](std::uint64_t worker) { return roster_.has_joined(worker); };
  if (assignment == scale_->preparing || !std::ranges::all_of(assignment, has_joined)) return;
  emit(OrderWarmUp{.order = scale_->id, .shape = scale_->shape, .assignment = assignment});
  scale_->prepared.clear();
  scale_->preparing = std::move(assignment);
}

/// Without an order spares do not know whose place they will take: they prepare for any.
void DirectorProtocol::warm_up_spares() {
  for (const auto& [incarnation, worker] : roster_)
    if (worker.joined && !worker.leaving && kept_.rank_of(incarnation) < 0 &&
        warm_spares_.insert(incarnation).second)
      emit(WarmUpSpare{.incarnation = incarnation, .shape = kept_.shape});
}

void DirectorProtocol::cool_down() {
  if (scale_) scale_->preparing.clear();
  warm_spares_.clear();
}

void DirectorProtocol::handle(const MemberWarm& event) {
  if (scale_ && scale_->id == event.order && roster_.contains(event.incarnation) &&
      event.rank >= 0 && scale_->rank_of(event.incarnation) == event.rank)
    scale_->prepared.insert(event.incarnation);
}

/// The order's workers have joined and are warm. Nobody who trains has waited for them.
bool DirectorProtocol::can_scale() const {
  return scale_ && !is_scaling() && scale_->all_prepared() &&
         scale_->preparing == assign_ranks({.shape = scale_->shape}, kept_, roster_);
}

/// Whether the ordered change, and nothing else, waits for it: the last epoch that all ranks
/// reached has no part for it, and can go on as it is.
bool DirectorProtocol::is_newcomer(std::uint64_t incarnation) const {
  if (kept_.number == 0 || !scale_ || kept_.rank_of(incarnation) >= 0) return false;
  if (!is_between_epochs()) return !is_scaling();
  const bool takes_part = gathering_.rank_of(incarnation) >= 0 ||
                          (phase_ == Phase::preparing && epoch_.rank_of(incarnation) >= 0);
  return is_scaling() && kept_.shape != scale_->shape && takes_part;
}

/// Nothing is lost with it: the change is tried again with another one, some times. `has_begun`: it
/// may have connected to the others.
void DirectorProtocol::lose_newcomer(const std::string& cause, bool has_begun) {
  const bool was_under_way = std::exchange(scale_->is_under_way, false);
  if (++scale_->num_deaths >= kMaxDeaths) {
    answer_scale(ErrorKind::unavailable,
                 fmt::format("{} new workers ended before they had a part, and the run goes on "
                             "without the change; the last: {}; see the logs of the run",
                             kMaxDeaths, cause));
    cool_down();
    spares_due_ = true;  // for whom the order has spawned, and who has no use any more
  }
  if (was_under_way) {
    gathering_.aim_at({.shape = kept_.shape});
    gather(cause, has_begun);
  } else if (scale_) {
    spawn_missing({.shape = scale_->shape});
    warm_up();
  }
}

void DirectorProtocol::answer_scale(ErrorKind kind, const std::string& refused) {
  if (!scale_) return;
  emit(AnswerScale{.order = scale_->id, .kind = kind, .refused = refused});
  scale_.reset();
}

}  // namespace troupe::actors
