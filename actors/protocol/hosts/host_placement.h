#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "actors/protocol/configuration_gathering.h"
#include "actors/protocol/hosts/host_table.h"
#include "actors/protocol/roster.h"
#include "actors/topology/configuration.h"
#include "actors/topology/hosts.h"
#include "actors/topology/scale.h"

namespace troupe::actors {

struct PlacementRules {
  HostRules hosts{};
  /// Whether lost workers are replaced wherever there is room; else only those of lost hosts, on
  /// spare ones.
  bool replaces = true;
};

struct Placement {
  std::vector<std::string> hosts;  ///< by rank; empty: the rank has no place
  std::set<int> homeless;          ///< ranks for which there is no room
};

/// Where the ranks of a target go, of which some workers are left. No host gets more ranks than it
/// has slots, and the shards of a stage lie on one host. Within that,
///
/// - who is left stays where it is, so that the least state moves;
/// - a worker that ended is replaced on its own host, or by a process that waits for work;
/// - stages of a lost host go to a spare one, then to where most slots are free, side by side;
/// - if not all have room, replicas that lack least come first, and of them stages that may lie on
///   the fewest hosts.
///
/// If stages have hosts of their own and some find no room so, all ranks are placed anew, as at the
/// start.
///
/// `available` are the hosts that may have ranks. Before the first configuration, `kept` has the
/// number 0, place_ranks() is asked instead.
Placement place_target(const TargetShape& target, const Configuration& kept, const Roster& roster,
                       std::span<const HostTable::Entry> available, const PlacementRules& rules);

}  // namespace troupe::actors
