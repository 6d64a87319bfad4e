#pragma once

#include "actors/topology/configuration.h"
#include "launch/host/machine.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// The resolved manifest of a run after its cluster has changed to this shape; a resume starts with
/// it. Keys that follow from the shape are derived again.
Manifest with_shape(Manifest manifest, const actors::ClusterShape& shape, const Machine& machine);

}  // namespace troupe::launch
