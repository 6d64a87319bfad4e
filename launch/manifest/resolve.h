#pragma once

#include "launch/host/machine.h"
#include "launch/manifest/manifest.h"

namespace troupe::launch {

/// Fills in, again where the manifest was resolved before, what follows from other keys or from the
/// machine: names, absolute paths, derived numbers, a plan file's text. Reads no file but
/// schedule.csv. Throws Error{manifest} where a key cannot be derived.
void resolve(Manifest& manifest, const Machine& machine);

/// Derives again what follows from mesh and schedule: for a run that has taken on another shape.
void resolve_shape(Manifest& manifest, const Machine& machine);

}  // namespace troupe::launch
