#pragma once

#include <map>
#include <span>

#include "actors/topology/configuration.h"

namespace troupe::actors {

/// Whether a rank's state is copied in a shape of which some is (copies_state()): nobody else in
/// its stage has it.
bool is_copied(const ClusterShape& shape, int rank);

/// Which rank keeps a copy of which rank's state, where ranks copy it. Each keeps that of one other
/// at most. On one host that is the next stage's; on several the copy lies on another host. A
/// value.
struct CopyRing {
  /// By the rank whose state it is. In an order to one rank: its own keeper, and itself as that of
  /// another. If it is empty, neighbour_of(shape, rank, 1) is the keeper.
  std::map<int, int> keepers;

  /// The rank that keeps a copy of this one's state; -1: none does.
  int keeper_of(const ClusterShape& shape, int rank) const;
  /// The rank whose copy this one keeps; -1: it keeps none.
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
/// stage comes the first. In a replica of one stage shards take the place of stages, and where
/// there is one shard replicas, which hold other experts each. Where stages differ in width, the
/// rank of the number that is `distance` larger, after the last the first.
int neighbour_of(const ClusterShape& shape, int rank, int distance);

}  // namespace troupe::actors
