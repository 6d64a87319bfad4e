#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/manifest/toml/manifest.h"
#include "stages/model/model_config.h"

namespace troupe::launch {

/// A table of [[optimizer.group]] and what it decides: not what earlier tables match.
struct GroupCount {
  stages::ParameterGroup group;
  int tensors = 0;
  std::int64_t parameters = 0;
};
/// Counts what each group of the model decides, in their order.
std::vector<GroupCount> count_groups(const stages::ModelConfig& model);

/// Throws Error{manifest} for a group that matches no parameter, with the nearest names, or only
/// those of groups before it, for one whose keys contradict each other, and if nothing trains.
void check_groups(const Manifest& manifest);

/// What was frozen in a checkpoint, or is so now, and not in the other, as names of tensors.
struct FrozenDifference {
  std::vector<std::string> frozen;    ///< trained until now
  std::vector<std::string> released;  ///< frozen until now
};
FrozenDifference compare_frozen(const stages::ModelConfig& now, const stages::ModelConfig& before);

}  // namespace troupe::launch
