#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launch/host/machine.h"
#include "launch/manifest/manifest.h"
#include "stages/checkpoint.h"

namespace troupe::launch {

/// Reads, resolves and checks a manifest and the text that it names.
Manifest load_manifest(const std::filesystem::path& path, const std::vector<std::string>& overrides,
                       const Machine& machine);

/// Opens checkpoint.resume, if there is one, compares it with the manifest and reads every byte.
/// Returns what the run goes on from: nothing without one or from weights alone. Throws Error{data}
/// naming what differs or is damaged.
std::optional<stages::CheckpointInfo> check_start(const Manifest& manifest);

/// Whether the run can go on from this checkpoint: same model, same data, steps left to do. Throws
/// as check_start.
void check_fits(const Manifest& manifest, const stages::CheckpointReader& checkpoint);

}  // namespace troupe::launch
