#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "actors/protocol/configuration_gathering.h"
#include "actors/topology/scale.h"

namespace troupe::actors {

/// Who wants a change of the cluster.
enum class ScaleReason {
  ordered,  ///< somebody outside, who is answered
  leave,    ///< the run: a host is to have no rank any more
  grow,     ///< the run: hosts have joined, and it is smaller than it was meant to be
};

/// An order to change the cluster, from its arrival until the first step of the new shape is
/// committed or the order is given up. Its workers prepare while the steps go on; then a
/// configuration is gathered for it. A loss may undo the configuration, but not the order.
struct PendingScale {
  std::uint64_t id = 0;
  ScaleRequest request;
  TargetShape target;
  ScaleReason reason = ScaleReason::ordered;
  /// Whether it asks for no shape, but for the one there is, or the largest, without a host.
  bool keeps_shape = false;
  int most_ranks = 0;  ///< of the targets before, which late answers may be about

  /// Sets another target, because the hosts are others.
  void aim_at(TargetShape next) {
    most_ranks = std::max(most_ranks, target.shape.num_ranks());
    target = std::move(next);
  }

  /// Workers that were asked to prepare, by rank; empty: none was.
  RankAssignment preparing;
  std::set<std::uint64_t> prepared;
  /// Whether the configuration that is gathered, prepared or in its first step is for this order.
  bool is_under_way = false;
  /// How often the change has failed.
  int num_failures = 0;

  /// The rank that a worker was asked to prepare for; -1: none.
  int rank_of(std::uint64_t incarnation) const { return actors::rank_of(incarnation, preparing); }
  /// Whether workers were asked to prepare, and all of them have.
  bool all_prepared() const {
    return !preparing.empty() && std::ranges::all_of(preparing, [this](auto worker) {
      return prepared.contains(worker);
    });
  }
};

}  // namespace troupe::actors
