#pragma once

#include "launch/hosts/gathering.h"
#include "launch/hosts/preflight.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Has the hosts that have joined, and this one, tell of themselves and try the ways to each other.
/// Blocks some seconds. Throws Error{unavailable} if the hosts have no room for the run's ranks.
HostsFound look_at_hosts(HostGathering& gathering, const Manifest& manifest);

/// Throws Error{unavailable} with all refusals, if there are any.
void require_fit(const Preflight& judged);

}  // namespace troupe::launch
