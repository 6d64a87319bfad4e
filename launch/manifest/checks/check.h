#pragma once

#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// What a manifest is checked for. A run that is resumed may have a shape in which a key has no
/// effect, because a live change has led there; in a new run that is a mistake.
enum class Purpose { launch, resume };

/// Checks that the values of a resolved manifest fit together: mesh, batch, model, schedule,
/// optimizer, evaluation. A pure function. Throws Error{manifest} with the place, the rule and its
/// numbers, and the nearest valid choice.
void check(const Manifest& manifest, Purpose purpose = Purpose::launch);

}  // namespace troupe::launch
