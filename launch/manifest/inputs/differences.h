#pragma once

#include <string>
#include <vector>

#include "actors/topology/run_spec.h"
#include "launch/manifest/toml/manifest.h"
#include "stages/files/checkpoint/checkpoint.h"

namespace troupe::launch {

/// How a run differs from the one that wrote the checkpoint it resumes from, a phrase for each
/// difference.
struct Differences {
  std::vector<std::string> told;    ///< later steps train in another way
  std::vector<std::string> cursor;  ///< the checkpoint's data cursor points to other samples

  std::vector<std::string> all() const;
};

/// Compares a manifest with a checkpoint; a pure function. Settings that the checkpoint does not
/// record are not compared, nor is the corpus as long as the manifest's data.digest is not known. A
/// data cursor of 0 means the same in every corpus.
Differences differences(const Manifest& manifest, const stages::CheckpointInfo& info);

/// A warning about remaining steps that train nothing because the learning rate reaches 0 before
/// them; empty if there are none.
std::string dead_steps_warning(const actors::RunSpec& spec);

/// Throws Error{data}, with what the user can do, if the checkpoint's data cursor points to other
/// samples and checkpoint.other_data is not set.
void check_cursor(const Manifest& manifest, const stages::CheckpointInfo& info);
/// Throws Error{data}, with what the user can do, if a parameter trains whose moments the
/// checkpoint lacks because it was frozen.
void check_released(const Manifest& manifest, const stages::CheckpointInfo& info);

}  // namespace troupe::launch
