#pragma once

#include "actors/topology/configuration.h"
#include "launch/host/machine.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Fills in what follows from other keys or from the machine: names, absolute paths, derived
/// numbers, a plan file's text. In a manifest that was resolved before they are derived again.
/// Reads no file but schedule.csv. Throws Error{manifest} if a key cannot be derived.
void resolve(Manifest& manifest, const Machine& machine);

/// The resolved manifest of a run after its cluster has changed to this shape; a resume starts with
/// it. Keys that follow from the shape are derived again.
Manifest with_shape(Manifest manifest, const actors::ClusterShape& shape, const Machine& machine);

}  // namespace troupe::launch
