#pragma once

#include <string>

#include "actors/topology/run_spec.h"
#include "launch/manifest/manifest.h"

namespace troupe::launch {

/// The meaning of a resolved and checked manifest.
actors::RunSpec to_run_spec(const Manifest& manifest);

/// The spec of the text that Manifest::to_toml() made: what a worker is given. Touches no file.
actors::RunSpec parse_resolved(const std::string& text);

}  // namespace troupe::launch
