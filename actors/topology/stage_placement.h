#pragma once

#include <optional>
#include <span>
#include <vector>

#include "actors/topology/hosts.h"

namespace troupe::actors {

/// Which ranks lie on one host: the shards of a stage's replica, or none but by chance.
enum class Together { shards, none };

/// The host of each rank of a mesh whose stages differ in width or have hosts of their own, as a
/// number into `hosts`; none if there is no room. Each stage goes to the host, of those that it may
/// lie on, which has the fewest replicas of it, and of these to the one nearest to its neighbour
/// before. If none has room, one that lies there gives way to it (augmenting paths, as H. W. Kuhn's
/// for matchings, 1955), which finds a place wherever there is one if all shards are as many.
std::optional<std::vector<int>> place_stages(const RunSpec::Mesh& mesh, std::span<const Host> hosts,
                                             const HostRules& rules, Together together);

}  // namespace troupe::actors
