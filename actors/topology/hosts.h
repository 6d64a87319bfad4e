#pragma once

#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "actors/topology/run_spec.h"

namespace troupe::actors {

/// What decides, beside their slots, which hosts ranks may lie on.
struct HostRules {
  bool tp_across_hosts = false;  ///< RunSpec::Cluster::tp_across_hosts
  int instances = 1;             ///< RunSpec::data_parallel.instances
  /// RunSpec::Cluster::stage_hosts. They say nothing of a mesh of another number of stages, as the
  /// one is to which a run shrinks that has lost all hosts of a stage.
  std::vector<std::vector<std::string>> stage_hosts{};

  bool names_hosts(const RunSpec::Mesh& mesh) const { return std::ssize(stage_hosts) == mesh.pp; }
  /// Whether the ranks of a stage may lie on this host.
  bool allows(const RunSpec::Mesh& mesh, int stage, const std::string& host) const;
};
HostRules host_rules(const RunSpec& spec);

/// The host of each rank, as a number into `hosts`; 0 for all if there are none. A pure function of
/// its arguments, by which the launch places a run before it starts.
///
/// - Consecutive ranks of a replica lie on one host or on consecutive ones, so that neighbouring
///   stages are as near as can be.
/// - A stage that has hosts of its own lies on these alone.
/// - The shards of a stage lie on one host. Only with `tp_across_hosts`, and if the hosts have no
///   room for whole stages, they may lie on two.
/// - Hosts are used alike: they take stages in turn, each while it has slots. The loss of one then
///   costs as little as it can.
/// - Each replica lies on one host if that gives no host more ranks than stages in turn would. Then
///   two replicas that follow each other, of which one may keep the other's slice, lie on two hosts
///   where that can be; unless the replicas are `instances` groups (data_parallel), whose members
///   lie together.
/// - Replicas that share experts out lie on one host if that gives none more ranks. They stand in
///   the place of one replica in the rule before.
///
/// All slots are used if the mesh needs them. Throws Error{unavailable}, with the numbers and the
/// hosts, if there is no room.
std::vector<int> place_ranks(const RunSpec::Mesh& mesh, std::span<const Host> hosts,
                             const HostRules& rules);

/// The hosts of a run that get ranks when it starts: all but the last recovery.spare_hosts. Throws
/// Error{unavailable} if none is left of some.
std::span<const Host> hosts_with_ranks(const RunSpec& spec);
/// The host of each rank of a run when it starts. Throws Error{manifest} if stages have hosts of
/// their own and the run has none.
std::vector<int> place_ranks(const RunSpec& spec);

}  // namespace troupe::actors
