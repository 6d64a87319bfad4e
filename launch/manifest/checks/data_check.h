#pragma once

#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Checks that a resolved manifest names the text to train on, once, and that to evaluate on. A
/// pure function, part of check(). Throws Error{manifest}.
void check_data(const Manifest& manifest);

}  // namespace troupe::launch
