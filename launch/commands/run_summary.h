#pragma once

#include <cstdint>
#include <string>

#include "actors/topology/run_spec.h"
#include "launch/manifest/placement.h"

namespace troupe::launch {

/// What a run is, for people: model, batch, mesh, schedule and a row a rank. Lines with their ends.
/// `pinned`: ranks are bound to cores of their own.
std::string summary(const actors::RunSpec& spec, const Placement& placement, bool pinned);

/// Tokens, samples, and how often the run reads them. A line with its end.
std::string corpus_line(const actors::RunSpec& spec, std::int64_t tokens);

}  // namespace troupe::launch
