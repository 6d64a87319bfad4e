#pragma once

#include "launch/manifest/manifest.h"

namespace troupe::launch {

/// Checks that the values of a resolved manifest fit together: mesh, batch, model, schedule,
/// optimizer, evaluation. A pure function. Throws Error{manifest} with the place, the rule and its
/// numbers, and the nearest valid choice.
void check(const Manifest& manifest);

}  // namespace troupe::launch
