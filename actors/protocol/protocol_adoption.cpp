#include <algorithm>
#include <utility>

#include "actors/protocol/protocol.h"

// How a run goes on that an earlier director has left: with its workers, as after a loss.

namespace troupe::actors {

void DirectorProtocol::handle(const MemberAdopted& event) {
  if (!adopts(event.member.incarnation)) return;
  MemberAdopted told = event;
  told.member.host = takeover_.adoption->host_of(event.member.incarnation);
  roster_.adopt(told.member);
  takeover_.adoption->take(told);
  adopt_if_complete();
}

/// Workers are gone before all have told what they have.
void DirectorProtocol::lose_left(const std::vector<std::uint64_t>& workers) {
  for (const std::uint64_t worker : workers) {
    roster_.abandon(worker);
    takeover_.adoption->gone(worker);
  }
  adopt_if_complete();
}

/// Goes on without the workers that have not told in time.
void DirectorProtocol::adoption_is_late() {
  const std::vector<std::uint64_t> missing = takeover_.adoption->missing();
  for (const std::uint64_t worker : missing) emit(KillWorker{.incarnation = worker});
  lose_left(missing);
}

/// Gathers the next configuration once it is known what is left of the last one.
void DirectorProtocol::adopt_if_complete() {
  if (!takeover_.adoption->complete() || phase_ == Phase::ending) return;
  const Adoption left = std::move(*takeover_.adoption);
  takeover_.adoption.reset();
  takeover_.chooses_state = true;
  if (auto kept = left.kept()) kept_ = configuration_ = std::move(*kept);
  roster_.skip_ids(static_cast<int>(lost_ranks(kept_, roster_).size()));
  gathering_.go_on_after(left.newest());
  emit(ReportWorkerLost{.others = {}, .cause = takeover_.left_by, .has_part = true});
  if (!shrink_to_survivors()) return finish_without_room();
  tell_use_of_hosts(gathering_.target().hosts);
  gather(takeover_.left_by);
}

/// Takes up what the earlier director has done, once it is known which state is left. Steps that it
/// has committed, as its reports, a checkpoint or the state show, and whose state is lost are
/// computed again.
void DirectorProtocol::take_up(const StatePlan& state) {
  takeover_.chooses_state = false;
  takeover_.does_what_was_due = true;
  reached_ = committed_ = std::max({reached_, state.step, saved()});
  emit(ReportTakeOver{
      .step = state.step, .committed = committed_, .from_memory = state.from_memory});
}

}  // namespace troupe::actors
