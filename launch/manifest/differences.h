#pragma once

#include <string>
#include <vector>

#include "actors/topology/run_spec.h"
#include "launch/manifest/manifest.h"
#include "stages/checkpoint.h"

namespace troupe::launch {

/// How a run differs from the one that wrote the checkpoint it goes on from, a phrase each.
struct Differences {
  std::vector<std::string> told;    ///< later steps are trained otherwise
  std::vector<std::string> cursor;  ///< the checkpoint's data cursor means other samples

  std::vector<std::string> all() const;
};

/// Pure. Of a checkpoint that does not say how it was trained less is compared, and of a manifest
/// whose data.digest is not known yet all but the corpus. A cursor of 0 means the same everywhere.
Differences differences(const Manifest& manifest, const stages::CheckpointInfo& info);

/// What to say of steps that are left and train nothing, as the learning rate has come to 0 before
/// them; empty where there are none.
std::string dead_steps_warning(const actors::RunSpec& spec);

/// Throws Error{data} where the cursor means other samples, unless checkpoint.other_data is set,
/// with what the user can do.
void check_cursor(const Manifest& manifest, const stages::CheckpointInfo& info);

}  // namespace troupe::launch
