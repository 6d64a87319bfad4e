#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "stages/files/checkpoint/checkpoint.h"

namespace troupe::launch {

/// A checkpoint directory that cannot be used, and why.
struct TornCheckpoint {
  std::filesystem::path path;
  std::string reason;
};

/// The checkpoint from which a run can continue.
struct ResumePoint {
  std::filesystem::path path;  ///< empty: the run has no usable checkpoint
  std::unique_ptr<stages::CheckpointReader> checkpoint;
  std::vector<TornCheckpoint> torn;  ///< newer checkpoints that are damaged
  /// Newer ones that the run has not written, ascending: they are left alone.
  std::vector<std::filesystem::path> of_others;
};

/// Finds the newest of a run's own checkpoints (stages::own_checkpoints) that is complete and
/// undamaged, which is checked by reading every byte on so many threads; or, if nobody can wait for
/// that, only complete. The base of an adapter's is in this directory, or if none is given in the
/// one that it names.
ResumePoint find_resume_point(const std::filesystem::path& run,
                              const stages::Progress& progress = {}, int threads = 1,
                              bool reads_all = true, const std::filesystem::path& base = {});

/// Renames a torn checkpoint to <name>.torn, so that its step can be saved again.
void set_aside(const TornCheckpoint& torn);

}  // namespace troupe::launch
