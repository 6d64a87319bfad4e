#pragma once

#include "launch/manifest/checks/check.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Checks [data_parallel] against itself, the mesh and the model. Throws Error{manifest}.
void check_data_parallel(const Manifest& manifest, Purpose purpose);

}  // namespace troupe::launch
