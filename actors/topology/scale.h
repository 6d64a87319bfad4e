#pragma once

#include <optional>
#include <set>
#include <string>

#include "actors/topology/epoch.h"

namespace troupe::actors {

/// A wish to change the running cluster; what is not named stays as it is.
struct ScaleRequest {
  std::optional<int> pp;
  std::optional<int> dp;
  std::optional<std::string> layout;    ///< the text of a LayerSplit
  std::optional<std::string> schedule;  ///< kind
  std::string costs;                    ///< that the schedule is made for (RunSpec::Schedule)
};

/// "--pp 3 --schedule gpipe".
std::string to_string(const ScaleRequest& request);

/// The shape that the request makes of the current one. Throws Error{usage} with the rule, its
/// numbers and the nearest valid choice where there is no such shape, or it is the current one.
ClusterShape scaled(const RunSpec& spec, const ClusterShape& current, const ScaleRequest& request);

/// The largest shape that the ranks left over can fill without new ones, and which old replica each
/// of its replicas continues: whole replicas if there are any, else the stages of one, with 1f1b
/// where the schedule has no plan for so few. None if nothing is left.
struct Shrunk {
  ClusterShape shape;
  std::vector<int> replicas;
};
std::optional<Shrunk> shrunk(const RunSpec& spec, const ClusterShape& current,
                             const std::set<int>& lost);

}  // namespace troupe::actors
