#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "actors/topology/run_spec.h"
#include "launch/host/machine.h"
#include "launch/manifest/inputs/placement.h"

namespace troupe::launch {

/// Warnings about a valid manifest that does not suit the machine or trains in vain: memory, cores,
/// disk, learning rate.
std::vector<std::string> warnings(const actors::RunSpec& spec, const Placement& placement,
                                  const Machine& machine);

/// Throws Error{manifest} if the ranks together need more memory than the machine or its GPU has.
/// The message begins with `name`, the manifest's.
void check_memory(const actors::RunSpec& spec, const Placement& placement, const Machine& machine,
                  const std::string& name);

/// A warning if the ranks together need more memory than the machine or its GPU has; else empty.
std::string memory_warning(const actors::RunSpec& spec, const Placement& placement,
                           const Machine& machine);
/// A warning if the ranks together have more threads than the machine has cores; else empty.
std::string cores_warning(const actors::RunSpec& spec, const Machine& machine);
/// A warning if the ranks on a host have more threads than it has cores, of the first such host
/// that has told; else empty.
std::string cores_of_hosts(const actors::RunSpec& spec, const Placement& placement);
/// A warning if the checkpoints that will be kept do not fit `free_bytes`; else empty.
std::string disk_warning(const actors::RunSpec& spec, const Placement& placement,
                         std::int64_t free_bytes);

}  // namespace troupe::launch
