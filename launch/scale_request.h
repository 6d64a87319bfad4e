#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/scale.h"

namespace troupe::launch {

/// "3,2,1": layers of each stage; empty for an empty text. Throws Error{usage} for all else.
std::vector<int> parse_layers(const std::string& name, const std::string& text);

/// The fields of a control request: {"pp": 3, "dp": 1, "layers": [3, 2, 1], "schedule": "gpipe"},
/// those that are given.
nlohmann::json to_json(const actors::ScaleRequest& request);
/// Throws Error{usage} naming the field whose value is no such thing.
actors::ScaleRequest parse_scale(const nlohmann::json& fields);

}  // namespace troupe::launch
