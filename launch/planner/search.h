#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launch/manifest/toml/manifest.h"
#include "launch/planner/prediction.h"
#include "launch/planner/search_space.h"

namespace troupe::launch {

struct FoundLayout {
  CandidateLayout layout;
  Prediction prediction;
};

struct SearchResult {
  std::int64_t considered = 0;
  std::vector<FoundLayout> layouts;  ///< the fastest first
  Exclusions exclusions;
};

/// The fastest layouts of a run on so many devices of a machine, at most `top`. All are ranked by
/// formulas, the best of them by a simulation and an exact count of memory, so that each has the
/// prediction of a plan. The manifest has been resolved and checked; layouts that its other keys
/// forbid are left out, and with mesh.auto those with other values than it gives. Throws
/// Error{unavailable} if none fits, with the least memory that is missing.
SearchResult search(const Manifest& manifest, const MachineDescription& machine, int devices,
                    int top);

/// The manifest with a found layout in place of its own, without mesh.auto.
Manifest with_layout(Manifest manifest, const CandidateLayout& layout);

nlohmann::json to_json(const SearchResult& result);
/// A table with a line for each layout, of at most 120 columns, and what was excluded.
std::string to_table(const SearchResult& result);

}  // namespace troupe::launch
