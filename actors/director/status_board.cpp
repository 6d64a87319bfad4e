#include "actors/director/status_board.h"

#include <algorithm>
#include <string>
#include <utility>

namespace troupe::actors {

void show_activity(const Heartbeat& beat, const Configuration& configuration, std::int64_t step,
                   Hub& hub, StatusBoard& board) {
  const int rank = configuration.rank_of(beat.incarnation);
  if (rank < 0 || rank >= configuration.num_ranks()) return;  // the sender has left, or is leaving
  board.write([&](RunStatus& status) {
    // The last heartbeats of a configuration may come when it is over.
    if (status.configuration != configuration.number ||
        rank >= static_cast<int>(status.ranks.size()))
      return;
    RankStatus& shown = status.ranks[static_cast<std::size_t>(rank)];
    shown.state = beat.state;
    shown.waiting_for = beat.waiting_for;
    shown.waits_long_for.clear();
    for (const int id : beat.waits_long_for)
      if (const int of = configuration.members.rank_of_id(id); of >= 0)
        shown.waits_long_for.push_back(of);
    shown.edges.clear();
    for (const auto& [peer, placement] : beat.edges)
      if (const int of = configuration.members.rank_of_id(peer); of >= 0)
        shown.edges[std::to_string(of)] = transport::name_of(placement);
    shown.resident_bytes = beat.resident_bytes;
    shown.allocated = beat.allocated;
    shown.saved_bytes = beat.saved_bytes;
  });
  if (!hub.wanted<RankActivity>()) return;
  RankActivity activity{.state = beat.state,
                        .waiting_for = beat.waiting_for,
                        .resident_bytes = beat.resident_bytes,
                        .allocated = beat.allocated,
                        .mailbox_depth = beat.mailbox_depth};
  for (const Heartbeat::Link& link : beat.links) {
    const int to = configuration.members.rank_of_id(link.to);
    if (to >= 0 && to < configuration.num_ranks())
      activity.links.push_back({.to = to, .queued = link.queued});
  }
  hub.publish({.configuration = configuration.number,
               .step = step,
               .rank = rank,
               .body = std::move(activity)});
}

}  // namespace troupe::actors
