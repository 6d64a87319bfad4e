#include <fnmatch.h>

#include <algorithm>

#include "stages/model/model_config.h"

// What is found in the list of a model's parameters.

namespace troupe::stages {

const ParameterGroup* group_of(const std::string& tensor, std::span<const ParameterGroup> groups) {
  const auto found = std::ranges::find_if(
      groups, [&](const ParameterGroup& group) { return group.matches(tensor); });
  return found == groups.end() ? nullptr : &*found;
}

bool ParameterGroup::matches(const std::string& tensor) const {
  return fnmatch(match.c_str(), tensor.c_str(), 0) == 0;
}

std::map<std::string, ParameterInfo> parameters_by_name(const ModelConfig& config) {
  std::map<std::string, ParameterInfo> by_name;
  for (ParameterInfo& info : parameters_of(config)) by_name.emplace(info.name, std::move(info));
  return by_name;
}

std::int64_t num_parameters(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const ParameterInfo& info : parameters_of(config)) count += info.shape.num_elements();
  return count;
}

std::int64_t num_active_parameters(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const ParameterInfo& info : parameters_of(config))
    if (info.expert < config.experts.per_token) count += info.shape.num_elements();
  return count;
}

std::int64_t num_trained_parameters(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const ParameterInfo& info : parameters_of(config))
    if (!info.update.frozen) count += info.shape.num_elements();
  return count;
}

}  // namespace troupe::stages
