#pragma once

#include <string>

#include "actors/topology/scale.h"
#include "launch/host/machine.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// What a change of the cluster would do, as `troupe plan` would tell of it, for people: shape,
/// memory, bubble and, from `step_s`, the time of a step now (0: not known), that of one then.
/// `now` is the manifest of the current shape. Throws Error{usage} or Error{manifest} where the
/// change would be refused.
std::string preview_of(const Manifest& now, const actors::ScaleRequest& request,
                       const Machine& machine, double step_s);

}  // namespace troupe::launch
