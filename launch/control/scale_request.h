#pragma once

#include <nlohmann/json.hpp>

#include "actors/topology/scale.h"

namespace troupe::launch {

/// The fields of a control request that the scale request sets, out of {"pp": 3, "dp": 1, "layout":
/// "3,2,1", "schedule": "gpipe"}.
nlohmann::json to_json(const actors::ScaleRequest& request);
/// The scale request in the fields of a control request. Throws Error{usage} naming a field that is
/// not known, or whose value is empty or not valid.
actors::ScaleRequest parse_scale(const nlohmann::json& fields);

}  // namespace troupe::launch
