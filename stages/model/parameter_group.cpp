#include "stages/model/parameter_group.h"

#include <fnmatch.h>

#include <algorithm>

namespace troupe::stages {

bool ParameterGroup::matches(const std::string& tensor) const {
  return fnmatch(match.c_str(), tensor.c_str(), 0) == 0;
}

const ParameterGroup* group_of(const std::string& tensor, std::span<const ParameterGroup> groups) {
  const auto has_it = [&](const ParameterGroup& group) { return group.matches(tensor); };
  const auto found = std::ranges::find_if(groups, has_it);
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace troupe::stages
