#pragma once

#include <optional>
#include <string>
#include <vector>

#include "actors/protocol/hosts/host_table.h"
#include "actors/protocol/roster.h"
#include "actors/topology/configuration.h"
#include "actors/topology/scale.h"

namespace troupe::actors {

/// What the hosts of a run have room for. A view of what the director's protocol knows at the
/// moment: the hosts, the workers, and the last configuration that all ranks reached.
class HostPlanner {
 public:
  HostPlanner(const RunSpec& spec, const HostTable& hosts, const Configuration& kept,
              const Roster& roster)
      : spec_(spec), hosts_(hosts), kept_(kept), roster_(roster) {}

  /// The target with the hosts of its ranks; none if there is no room for all. `replaces` as
  /// PlacementRules.
  std::optional<TargetShape> with_hosts(TargetShape target,
                                        const std::vector<HostTable::Entry>& available,
                                        bool replaces = true) const;
  /// The shape with the hosts of its ranks, or the largest one below it for which there is room;
  /// none if there is none for any.
  std::optional<TargetShape> largest(const ClusterShape& shape,
                                     const std::vector<HostTable::Entry>& available,
                                     bool replaces) const;
  /// The hosts of the ranks of the last configuration; empty in a run on one machine.
  std::vector<std::string> kept_hosts() const;
  /// Whether a host has any rank of it.
  bool has_ranks(const std::string& host) const;
  /// Where a worker that waits for work is started: on a spare host, or where most slots are free,
  /// of those that some stage may lie on.
  /// Empty in a run on one machine, none if no slot is free.
  std::optional<std::string> host_for_spare() const;
  /// The hosts that a request wants left: those that it names, and if it says how many hosts may
  /// have ranks, as many others as are too many: those with the fewest ranks, and of these the ones
  /// that have joined last. Throws Error{usage} if it makes no sense to leave one, with the numbers
  /// if there are not as many hosts as are asked for.
  std::vector<std::string> hosts_to_leave(const ScaleRequest& request) const;

 private:
  void check_can_leave(const std::string& host) const;
  void check_hosts_stay(const ScaleRequest& request, const std::vector<std::string>& stay) const;
  const RunSpec& spec_;
  const HostTable& hosts_;
  const Configuration& kept_;
  const Roster& roster_;
};

}  // namespace troupe::actors
