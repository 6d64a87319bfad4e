#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/topology/configuration.h"

namespace troupe::actors {

/// A request to change the running cluster; what is not named stays as it is.
struct ScaleRequest {
  std::optional<int> pp;
  std::optional<int> dp;
  std::optional<int> tp;
  std::optional<int> ep;
  std::optional<int> stage;                ///< which dp and tp are for; none: all stages
  std::optional<std::string> layout;       ///< the text of a LayerSplit
  std::optional<std::string> schedule;     ///< kind of schedule
  std::string costs;                       ///< costs the schedule is made for (RunSpec::Schedule)
  std::vector<std::string> without_hosts;  ///< hosts that are to have no rank any more
  std::optional<int> hosts;                ///< how many hosts may have ranks; the others have none
};

/// The request as options: "--pp 3 --schedule gpipe".
std::string to_string(const ScaleRequest& request);

/// What of a request is about the cluster's shape, without the hosts.
ScaleRequest shape_of(ScaleRequest request);
/// Whether it asks for more than other hosts.
inline bool names_shape(const ScaleRequest& request) {
  return !to_string(shape_of(request)).empty();
}

/// The shape that the request makes of the current one. Throws Error{usage} with the rule, its
/// numbers and the nearest valid choice if there is no such shape, or if it is the current one.
ClusterShape scaled(const RunSpec& spec, const ClusterShape& current, const ScaleRequest& request);

/// A shape that the cluster is to take on, and which replicas of the old one go on in it.
struct TargetShape {
  ClusterShape shape;
  /// By new replica, the old one that it continues; beyond the end, the one of the same number.
  std::vector<int> replicas;
  /// The host of each rank; empty in a run on one machine.
  std::vector<std::string> hosts;

  int continued(int replica) const {
    const auto at = static_cast<std::size_t>(replica);
    return at < replicas.size() ? replicas[at] : replica;
  }
};

/// The largest shape that the ranks left over can fill without new ones, with whole replicas if
/// there are any, else the stages of one, with 1f1b if the schedule has no plan for so few. None if
/// nothing is left.
std::optional<TargetShape> shrunk(const RunSpec& spec, const ClusterShape& current,
                                  const std::set<int>& lost);

}  // namespace troupe::actors
