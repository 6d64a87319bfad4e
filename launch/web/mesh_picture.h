#pragma once

#include <string>

#include "launch/watch/run_now.h"

namespace troupe::launch {

/// The ranks as boxes in the shape of the mesh: a row for each replica, in it a box for each stage,
/// with its shards one below the other. Between stages stands what they send each other.
std::string mesh_picture(const RunNow& run);

}  // namespace troupe::launch
