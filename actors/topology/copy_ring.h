#pragma once

#include <map>
#include <span>

#include "actors/topology/configuration.h"

namespace troupe::actors {

/// Which rank keeps a copy of which rank's state, where ranks copy it (copies_state()). Each keeps
/// that of one other. On one host that is the next stage's; on several the copy lies on another
/// host. A value.
struct CopyRing {
  /// By the rank whose state it is. In an order to one rank: its own keeper, and itself as that of
  /// another. For a rank that is not in it, neighbour_of(shape, rank, 1) is the keeper.
  std::map<int, int> keepers;

  int keeper_of(const ClusterShape& shape, int rank) const;
  /// The rank whose copy this one keeps.
  int source_of(const ClusterShape& shape, int rank) const;
  /// What one rank has to know of it.
  CopyRing for_rank(const ClusterShape& shape, int rank) const;
  bool operator==(const CopyRing&) const = default;
};

/// The ring of ranks on these hosts, one for each rank. If a host has more than half of the ranks,
/// as few copies as can be stay on it; else none stays on any.
CopyRing copy_ring(const ClusterShape& shape, std::span<const int> host_of_rank);
/// The ring of a configuration, by Member::host.
CopyRing copy_ring(const Configuration& configuration);

/// The rank of the same shard `distance` stages further on in the same replica; after the last
/// stage comes the first. In a replica of one stage shards take the place of stages.
int neighbour_of(const ClusterShape& shape, int rank, int distance);

}  // namespace troupe::actors
