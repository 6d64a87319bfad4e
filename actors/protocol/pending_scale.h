#pragma once

#include <cstdint>
#include <set>

#include "actors/protocol/epoch_gathering.h"
#include "actors/topology/scale.h"

namespace troupe::actors {

/// An order to change the cluster, from its arrival until the first step of the new shape is
/// committed or it is given up. Its workers prepare beside the steps; then an epoch is gathered for
/// it. A loss on the way may undo the epoch, and the order stands.
struct PendingScale {
  std::uint64_t id = 0;
  ScaleRequest request;
  ClusterShape shape;

  /// Workers that were asked to prepare, by rank; empty: nobody was.
  RankAssignment preparing;
  std::set<std::uint64_t> prepared;
  /// The epoch that is gathered, prepared or in its first step is for it.
  bool is_under_way = false;
  /// Newcomers that ended before they had a part.
  int num_deaths = 0;

  /// The rank that a worker was asked to prepare for; -1: none.
  int rank_of(std::uint64_t incarnation) const;
  /// Everybody who was asked to prepare has.
  bool all_prepared() const;
};

}  // namespace troupe::actors
