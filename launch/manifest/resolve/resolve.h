#pragma once

#include "launch/host/machine.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Fills in what follows from other keys or from the machine: names, absolute paths, derived
/// numbers, a plan file's text. In a manifest that was resolved before they are derived again.
/// Reads no file but schedule.csv. Throws Error{manifest} if a key cannot be derived.
void resolve(Manifest& manifest, const Machine& machine);

/// Derives again what follows from mesh and schedule, after the cluster's shape has changed.
void resolve_shape(Manifest& manifest, const Machine& machine);

}  // namespace troupe::launch
