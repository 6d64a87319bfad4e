#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "actors/protocol/protocol.h"
#include "actors/topology/hosts.h"

// How an order to change the cluster waits for its workers, and how it is answered.

namespace troupe::actors {
namespace {

/// An order is given up after this many failures: new workers that ended before they had a part,
/// and configurations of the new shape that could not begin.
constexpr int kMaxFailures = 3;
/// The wait before the second attempt, in seconds; twice as long before the third.
constexpr double kFirstDelay = 1;

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
  std::vector<std::string> left;
  try {
    left = planner().hosts_to_leave(event.request);
    scale_ = {
        .id = event.order, .request = event.request, .target = target_of(event.request, left)};
  } catch (const Error& error) {
    return refuse(error.kind(), error.what());
  }
  scale_->keeps_shape = !left.empty() && !names_shape(event.request);
  cool_down();
  if (!left.empty()) return leave_hosts(left, "ordered");
  prepare_change();
}

/// What the request makes of the current shape, and where its ranks go once these hosts are left.
/// Throws Error.
TargetShape DirectorProtocol::target_of(const ScaleRequest& request,
                                        const std::vector<std::string>& left) const {
  const ClusterShape& current = kept_.number > 0 ? kept_.shape : gathering_.target().shape;
  auto available = hosts_.available();
  std::erase_if(available, [&](const auto& entry) {
    return std::ranges::find(left, entry.host.name) != left.end();
  });
  if (!left.empty() && !names_shape(request)) {
    if (auto target = planner().largest(current, available, true)) return *target;
    throw Error(ErrorKind::unavailable,
                fmt::format("without host {} no other can hold the run", fmt::join(left, ", ")));
  }
  TargetShape target{
      .shape = scaled(spec_, current, shape_of(request)), .replicas = {}, .hosts = {}};
  if (hosts_.empty()) return target;
  if (auto placed = planner().with_hosts(target, available)) return *placed;
  std::vector<Host> hosts;
  for (const auto& entry : available) hosts.push_back(entry.host);
  // It says what there is room for, and throws.
  place_ranks(target.shape.mesh, hosts, host_rules(spec_));
  throw Error(ErrorKind::unavailable, "no host may have ranks");
}

/// Has the workers of the ordered change prepare for it.
void DirectorProtocol::prepare_change() {
  if (is_between_configurations()) return;  // settle() spawns the workers later
  cool_down();
  spawn_missing(scale_->target, 0);
  warm_up();
}

/// Once all workers of the ordered change have joined, has them build their stages while the steps
/// go on. No worker connects to a newcomer before it has a part: if it died, half a message of it
/// might stay in the memory of those that train.
void DirectorProtocol::warm_up() {
  if (is_scaling() || is_between_configurations()) return;
  if (!scale_) return warm_up_spares();
  RankAssignment assignment = assign_ranks(scale_->target, kept_, roster_);
  const auto has_joined = [this](std::uint64_t worker) { return roster_.has_joined(worker); };
  if (assignment == scale_->preparing || !std::ranges::all_of(assignment, has_joined)) return;
  emit(OrderWarmUp{.order = scale_->id, .shape = scale_->target.shape, .assignment = assignment});
  scale_->prepared.clear();
  scale_->preparing = std::move(assignment);
}

/// Has spares prepare for any rank; without an order they do not know whose place they will take.
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

void DirectorProtocol::handle(const Warm& event) {
  if (scale_ && scale_->id == event.order && roster_.contains(event.incarnation) &&
      event.rank >= 0 && scale_->rank_of(event.incarnation) == event.rank)
    scale_->prepared.insert(event.incarnation);
}

/// Whether the order's workers have joined and are prepared. Those that train have not waited for
/// them.
bool DirectorProtocol::can_scale() const {
  return scale_ && !is_scaling() && scale_->all_prepared() &&
         scale_->preparing == assign_ranks(scale_->target, kept_, roster_);
}

/// Whether only the ordered change needs this worker: it has no part in the last configuration that
/// all ranks reached, which can go on without it.
bool DirectorProtocol::is_newcomer(std::uint64_t incarnation) const {
  if (kept_.number == 0 || !scale_ || kept_.rank_of(incarnation) >= 0) return false;
  if (!is_between_configurations()) return !is_scaling();
  const bool takes_part = gathering_.rank_of(incarnation) >= 0 ||
                          (phase_ == Phase::preparing && configuration_.rank_of(incarnation) >= 0);
  return is_scaling() && !has_changed() && takes_part;
}

/// Loses a newcomer, with which no state is lost: the change is tried again with another one, up to
/// kMaxDeaths times. `has_begun`: it may have connected to other workers.
void DirectorProtocol::lose_newcomer(const std::string& cause, bool has_begun) {
  const bool was_under_way = is_scaling();
  scale_failed(cause);
  if (was_under_way) {
    gather(cause, has_begun);
  } else if (scale_) {
    place_change(kFirstDelay * scale_->num_failures);
    warm_up();
  }
  change_by_itself();
}

/// Notes that the ordered change has failed. The order stands, and is carried out after the
/// recovery; it is given up if it has failed too often, each time for whatever cause.
void DirectorProtocol::scale_failed(const std::string& cause) {
  if (std::exchange(scale_->is_under_way, false)) aim_at_kept();
  if (++scale_->num_failures < kMaxFailures) return;
  give_up_scale(ErrorKind::unavailable,
                fmt::format("the change has failed {} times, and the run goes on without it; the "
                            "last time: {}; see the logs of the run",
                            kMaxFailures, cause));
}

/// Refuses the ordered change, which fails or would fail again.
void DirectorProtocol::give_up_scale(ErrorKind kind, const std::string& why) {
  if (std::exchange(scale_->is_under_way, false)) aim_at_kept();
  if (scale_->reason == ScaleReason::leave) ++failed_leaves_;
  if (scale_->reason == ScaleReason::grow) grow_later();
  answer_scale(kind, why);
  cool_down();
  spares_due_ = true;  // to dismiss workers that were spawned for the order
}

/// Whether the configuration that is gathered or prepared is for an order, and has another shape
/// than the one before, which all workers can return to.
bool DirectorProtocol::can_undo_scale() const {
  return is_scaling() && kept_.number > 0 && !has_changed();
}

/// Whether all ranks have reached what the order asks for.
bool DirectorProtocol::has_changed() const {
  return kept_.shape == scale_->target.shape && planner().kept_hosts() == scale_->target.hosts;
}

void DirectorProtocol::answer_scale(ErrorKind kind, const std::string& refused) {
  if (!scale_) return;
  const PendingScale done = *std::exchange(scale_, std::nullopt);
  if (done.reason != ScaleReason::ordered) {
    if (!refused.empty()) emit(ReportGivenUp{.change = to_string(done.request), .why = refused});
    return;
  }
  if (refused.empty()) note_wanted(done);
  emit(AnswerScale{.order = done.id, .kind = kind, .refused = refused});
}

}  // namespace troupe::actors
