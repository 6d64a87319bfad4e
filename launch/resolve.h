#pragma once

#include "launch/machine.h"
#include "launch/manifest.h"

namespace troupe::launch {

/// Fills in what follows from other keys or from the machine: names, absolute paths, derived
/// numbers, a plan file's text. Reads no file but schedule.csv. Throws Error{manifest} where a key
/// cannot be derived.
void resolve(Manifest& manifest, const Machine& machine);

}  // namespace troupe::launch
