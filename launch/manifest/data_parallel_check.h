#pragma once

#include "launch/manifest/check.h"
#include "launch/manifest/manifest.h"

namespace troupe::launch {

/// Checks [data_parallel] against itself, the mesh and the model. Throws Error{manifest}.
void check_data_parallel(const Manifest& manifest, Purpose purpose);

}  // namespace troupe::launch
