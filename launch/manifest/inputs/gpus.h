#pragma once

#include "launch/host/machine.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// Sets `machine.gpus` to own_gpus() if the manifest asks for CUDA. Throws Error{manifest} if its
/// mesh is not possible on what is there.
void look_for_gpus(const Manifest& manifest, Machine& machine);

/// Throws Error{unavailable} if the manifest asks for CUDA and this machine has no GPU that can be
/// used. look_for_gpus() has been called.
void require_gpu(const Manifest& manifest, const Machine& machine);

}  // namespace troupe::launch
