#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/commands/launching/takeover.h"
#include "launch/commands/options.h"
#include "launch/host/machine.h"
#include "launch/hosts/job.h"
#include "launch/manifest/toml/manifest.h"
#include "launch/run/resume.h"
#include "launch/run/run_directory.h"
#include "stages/files/checkpoint/checkpoint.h"

namespace troupe::launch {

/// The inputs of a launch, decided and checked before anything is written or started.
struct Start {
  Manifest manifest;  ///< manifest as it is saved with the run
  /// Checkpoint that it starts from, own or named by the manifest.
  std::optional<stages::CheckpointInfo> goes_on_from;
  ResumePoint point = {};                 ///< what a resumed run's directory has to go on from
  std::vector<std::string> changed;       ///< run.changed of the manifest of a new run
  bool resumed = false;                   ///< whether it resumes a run in that run's directory
  std::optional<RunDirectory> directory;  ///< directory of a resumed run, which is owned already
  std::optional<LostRun> lost = {};       ///< of a run that is taken over from a lost launcher
  bool adopts = false;                    ///< its workers go on with what they hold

  /// The number of steps that are done already.
  std::int64_t step() const { return goes_on_from ? goes_on_from->step : 0; }
};

/// The inputs of a new run, or of the one that the options name, whose directory is owned from now
/// on. `job`: whose hosts a layout may be looked for.
Start decide_start(const LaunchOptions& options, const Machine& machine, const Job& job);

/// The manifest for the workers, with the checkpoint that they start from now.
Manifest trained_manifest(const Start& start);

}  // namespace troupe::launch
