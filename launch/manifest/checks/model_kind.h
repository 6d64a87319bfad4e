#pragma once

#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Checks that the user set no key which belongs to another kind of model, and that samples fit the
/// table of positions, if the kind has one. Throws Error{manifest} with the place, the rule and the
/// nearest valid choice.
void check_model_kind(const Manifest& manifest);

}  // namespace troupe::launch
