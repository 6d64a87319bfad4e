#pragma once

#include <string>

#include "actors/topology/run_spec.h"
#include "launch/manifest/toml/manifest.h"

namespace troupe::launch {

/// The name of the file in a run directory with the algorithms that were chosen by their speed for
/// the products of a GPU.
inline constexpr const char* kTuningFile = "products.txt";

/// The typed form of a resolved and checked manifest.
actors::RunSpec to_run_spec(const Manifest& manifest);

/// The spec of a text that Manifest::to_toml() made, which is what a worker receives. Opens no
/// file.
actors::RunSpec parse_resolved(const std::string& text);

}  // namespace troupe::launch
