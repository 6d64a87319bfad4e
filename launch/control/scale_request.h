#pragma once

#include <nlohmann/json.hpp>

#include "actors/topology/scale.h"

namespace troupe::launch {

/// The fields of a control request: {"pp": 3, "dp": 1, "layout": "3,2,1", "schedule": "gpipe"},
/// those that are given.
nlohmann::json to_json(const actors::ScaleRequest& request);
/// Throws Error{usage} naming the field whose value is no such thing.
actors::ScaleRequest parse_scale(const nlohmann::json& fields);

}  // namespace troupe::launch
