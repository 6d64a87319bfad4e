#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "stages/model/model_config.h"

namespace troupe::stages {

/// What PEFT's target_modules chooses in a model without an adapter, as Adapter::targets: a list of
/// last names or of endings of whole names, "all-linear", or a regular expression of whole names.
/// Throws Error{data} if that is nothing, the head or the embedding, or not all modules of a name.
std::vector<std::string> chosen_targets(const nlohmann::json& target_modules,
                                        const ModelConfig& model);

}  // namespace troupe::stages
