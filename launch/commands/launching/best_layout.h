#pragma once

#include <string>
#include <vector>

#include "actors/topology/run_spec.h"
#include "launch/host/machine.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// What a layout is looked for.
struct LayoutTarget {
  int devices = 0;      ///< 0: those at hand
  std::string machine;  ///< what they are (describe_machine()); empty: by the names of GPUs here
  std::vector<actors::Host> hosts = {};  ///< of the run; empty: this machine alone
};

/// The devices at hand of a run: the slots of its hosts but the spare ones; without hosts this
/// machine's GPUs, or if it computes on processors, the ranks that have cores. Throws
/// Error{unavailable} if it computes on GPUs and there is none.
int devices_at_hand(const Manifest& manifest, const std::vector<actors::Host>& hosts, Machine here);

/// The manifest with the fastest layout that a search finds. With hosts a stage's shards find as
/// many devices together as the smallest of these has. Throws Error{usage} if nobody says what the
/// devices are, and as search() does; with mesh.auto an error has its place.
Manifest with_best_layout(const Manifest& manifest, const LayoutTarget& target, Machine here);

}  // namespace troupe::launch
