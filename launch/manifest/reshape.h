#pragma once

#include "actors/topology/epoch.h"
#include "launch/host/machine.h"
#include "launch/manifest/manifest.h"

namespace troupe::launch {

/// The resolved manifest of a run that has taken on this shape: a resume goes on with it. What
/// follows from the shape is derived again.
Manifest with_shape(Manifest manifest, const actors::ClusterShape& shape, const Machine& machine);

}  // namespace troupe::launch
