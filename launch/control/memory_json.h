#pragma once

#include <nlohmann/json.hpp>

#include "actors/topology/allocated_memory.h"

namespace troupe::launch {

/// The bytes by what they are for, {weights, gradients, optimizer, activations, packed, buckets,
/// collectives, pools}, and their total.
nlohmann::json to_json(const actors::AllocatedMemory& memory);

}  // namespace troupe::launch
