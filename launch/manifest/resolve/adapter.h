#pragma once

#include <filesystem>
#include <optional>

#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// The adapter that the keys of [adapter] describe, of a manifest that is resolved; none without
/// targets.
std::optional<stages::Adapter> adapter_of(const Settings& settings);

/// The directory with the base of the run's adapter; empty if it has none.
std::filesystem::path base_of(const Settings& settings);

/// Gives the keys of [adapter] that the manifest leaves out the values of the adapter in
/// adapter.from, if that is set, and the model its adapter. The model is resolved. Throws
/// Error{manifest} for a key that contradicts adapter.from or lacks what it needs, and Error{data}
/// if adapter.from is no adapter of the model.
void resolve_adapter(Manifest& manifest);

}  // namespace troupe::launch
